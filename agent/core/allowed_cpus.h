// Which CPUs of a node its workers may use, from what bounds them. Pure.
//
// Invariants (cited by tests):
//  A1 a bound that is not known, or that leaves nothing, bounds nothing; but what the user asks for
//     is refused then.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "agent/core/cpu_count.h"

namespace muster {

struct CpuBounds {
  CpuSet mask;                   // of the agent: what taskset, numactl and srun set
  std::optional<CpuSet> cpuset;  // of its cgroup
  CpuSet online;
  bool slurm = false;    // in a step of Slurm's
  std::string cpu_list;  // --cpu-list; "" = all
};

struct CpusForWorkers {
  CpuSet cpus;
  std::string notice;  // for people: one CPU that nobody may have meant; "" = nothing to say
};

// A mask of a single CPU is mostly an accident: a step of srun without --cpus-per-task, or a parent
// whose threads were pinned. In a step of Slurm's whose cgroup has more the workers get these.
// Errors: InvalidArgument (--cpu-list names none of them).
absl::StatusOr<CpusForWorkers> AllowedOf(const CpuBounds& bounds);

}  // namespace muster
