// Which limits of the kernel workers get (--propagate): read where launch runs, set on each node;
// and that of our own descriptors.
// Any thread.
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/work_plan.h"

namespace muster {

// Below this a process of ours cannot even say what it lacks.
inline constexpr rlim_t kDescriptorsMin = 64;

// Raises the descriptor limit of this process as far as it goes; the limit it had, for the workers.
// ResourceExhausted where that is less than kDescriptorsMin.
absl::StatusOr<rlimit> RaiseDescriptorLimit();

struct ProcessLimit {
  __rlimit_resource resource;
  rlimit value;
};

// The soft limits of this process that `names` (limit_names.h) name. `files` is the descriptor
// limit that it had before RaiseDescriptorLimit; that of core files is CoreLimitOfOthers.
std::vector<WorkerLimit> OwnLimits(const std::vector<std::string>& names, const rlimit& files);

struct NodeLimits {
  // What this process has changed for itself is always among them: descriptors and core files.
  std::vector<ProcessLimit> limits;
  std::string warning;  // what is less than asked for on `host`, and why; "" = nothing
};
// No soft limit can be above this node's hard one.
NodeLimits LimitsOnNode(const std::vector<WorkerLimit>& wanted, const rlimit& files,
                        absl::string_view host);

}  // namespace muster
