// Which CPUs, memory and devices each worker of a node gets. Pure: the same input gives the same
// plan.
//
// Invariants (cited by tests):
//  P1 a worker's CPUs are allowed ones, and at least one;
//  P2 without overload, workers that share no core on purpose share none: with `auto` that is
//     whenever there is a core for each;
//  P3 with `auto` and no GPUs the workers of two NUMA nodes differ by at most one from what their
//     cores ask for, and those of one node's shares by at most one core;
//  P4 with `auto` and more workers than cores no core is left to nobody;
//  P5 a worker has the memory of its own CPUs, unless --membind names nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/core/cpu_count.h"
#include "agent/core/topology.h"
#include "proto/base/cpu_binding.h"

namespace muster {

// CpuBinding::memory_nodes, in place of a list.
inline constexpr char kAllMemoryNodes[] = "all";

struct WorkerShare {
  CpuSet cpus;  // all allowed ones where it is not bound
  bool bound = false;
  bool memory_named = false;     // by --membind
  uint32_t cores = 0;            // that `cpus` are of, in whole or in part
  uint32_t sharers = 1;          // workers of the node, with it, that run on any of these cores
  std::vector<uint32_t> memory;  // the kernel's numbers of its NUMA nodes, or of those asked for
  std::vector<uint32_t> gpus;    // places in Topology::gpus
  std::optional<uint32_t> nic;   // the nearest of Topology::nics
};

struct CpuPlan {
  std::vector<WorkerShare> workers;  // by local rank
};

// Errors, with the option, the number and the next step: InvalidArgument (more is asked for than
// there is), FailedPrecondition (no CPU of `allowed` is known).
absl::StatusOr<CpuPlan> PlanCpus(const Topology& topology, const CpuSet& allowed, uint32_t workers,
                                 const CpuBinding& binding);

// The user has not said where on the node workers run.
bool AsTheyCome(const CpuBinding& binding);

// Whether anything is to be found out for so many workers: one that is not asked to be anywhere
// else stays where it is.
bool WantsPlan(const CpuBinding& binding, uint32_t workers);

// For how many workers --map-by ppr:N:OBJECT has places on a node; at least one.
uint32_t PlacesByObjects(const Topology& topology, const CpuSet& allowed,
                         const CpuBinding& binding);

// As many CPUs as would give every worker what those have who share most: `usable`, but where
// workers are crowded on some of them. Hardware threads of a core are CPUs of their own.
uint32_t CpusToWaitWith(const CpuPlan& plan, uint32_t usable);

}  // namespace muster
