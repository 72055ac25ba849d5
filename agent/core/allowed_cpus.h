// Which CPUs of a node its workers may use, from what bounds them. Pure.
//
// Invariants (cited by tests):
//  A1 a bound that is not known, or that leaves nothing, bounds nothing; but what the user asks for
//     is refused then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "agent/core/cpu_count.h"

namespace muster {

struct CpuBounds {
  CpuSet mask;                   // of the agent: what taskset, numactl and srun set
  std::optional<CpuSet> cpuset;  // of its cgroup
  CpuSet online;
  uint32_t slurm_cpus = 0;  // that a job of Slurm's has on a node; 0 = not in one
  std::string cpu_list;     // --cpu-list; "" = all
  bool in_pbs = false;      // in a job of PBS's
};

struct CpusForWorkers {
  CpuSet cpus;
  std::string notice;  // for people: one CPU that nobody may have meant; "" = nothing to say
};

// What a job has on this node, at most, by SLURM_JOB_CPUS_PER_NODE ("16(x2),8": the most of any
// node) and SLURM_CPUS_ON_NODE, which a step, or a batch script on its own node, has; 0 = they say
// nothing.
uint32_t SlurmCpus(const char* per_node, const char* on_node);

// A mask of a single CPU is mostly an accident: a step of srun without --cpus-per-task, or a parent
// whose threads were pinned. In a step of Slurm's whose cgroup has more the workers get these, if
// the job has as many.
// Errors: InvalidArgument (--cpu-list names none of them).
absl::StatusOr<CpusForWorkers> AllowedOf(const CpuBounds& bounds);

}  // namespace muster
