// The names other launchers give to a worker's place, from one set of
// numbers, so that all dialects that are set agree. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "agent/core/env_filter.h"
#include "proto/base/ids.h"
#include "proto/base/messages.h"
#include "proto/base/work_plan.h"

namespace muster {

// Words of --dialect that mean more than names.
inline constexpr absl::string_view kDialectHorovod = "horovod";
inline constexpr absl::string_view kDialectTensorFlow = "tf";

// A worker's place in its round.
struct Place {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;
  uint32_t local_size = 1;
  uint32_t node_rank = 0;
  uint32_t nodes = 1;
  // Horovod's: this node's index among the nodes that have a worker of this local rank, and how
  // many those are.
  uint32_t cross_rank = 0;
  uint32_t cross_size = 1;
};
Place PlaceOf(const Assignment& assignment, LocalRank local);

// Assignment::layout as Slurm writes it: "16(x2),8".
std::string LayoutText(const std::vector<std::pair<uint32_t, uint32_t>>& layout);

// Words for --dialect.
std::vector<absl::string_view> DialectWords();

// Appends the variables of the dialects named (but "torch", which is always there, and Slurm's).
void AppendDialects(const std::vector<std::string>& dialects, const Place& place,
                    std::vector<EnvVar>& out);

// TF_CONFIG (TensorFlow's MultiWorkerMirroredStrategy and the like): the port kept for each worker,
// all of which are workers; the first one is the chief. "{}" where none is kept.
std::string TensorFlowConfig(const Assignment& assignment, uint32_t rank);

// FailedPrecondition: --dialect tf is asked for, and the round has not a port for every worker; or
// --dialect horovod, and the workers' address is one that its client cannot read.
absl::Status CheckDialects(const WorkPlan& plan, const Assignment& assignment);

// Appends Slurm's variables of a task (SlurmMode::kRewrite).
void AppendSlurm(const Assignment& assignment, const Place& place, const EnvBase& base,
                 const std::string& hostname, uint32_t threads, std::vector<EnvVar>& out);

}  // namespace muster
