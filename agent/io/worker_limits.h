// Which limits of the kernel workers get (--propagate): read where launch runs, set on each node.
// Any thread.
#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/work_plan.h"

namespace muster {

struct ProcessLimit {
  __rlimit_resource resource;
  rlimit value;
};

// The soft limits of this process that `names` (limit_names.h) name. `files` is the descriptor
// limit that it had before RaiseDescriptorLimit.
std::vector<WorkerLimit> OwnLimits(const std::vector<std::string>& names, const rlimit& files);

struct NodeLimits {
  std::vector<ProcessLimit> limits;  // the descriptor limit is always among them
  std::string warning;               // what is less than asked for on `host`, and why; "" = nothing
};
// No soft limit can be above this node's hard one.
NodeLimits LimitsOnNode(const std::vector<WorkerLimit>& wanted, const rlimit& files,
                        absl::string_view host);

}  // namespace muster
