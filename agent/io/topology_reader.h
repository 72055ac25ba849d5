// Reads what this machine is made of from /sys: one small file for each core, cache and NUMA node,
// 0.1 ms on small machines and 2 ms on one of 128 cores. hwloc, which reads the same files and
// more, takes 22 ms for the first topology of a process, most of it for its plug-ins; and an agent
// goes to machines that need not have it.
//
// Invariants (cited by tests):
//  R1 every CPU of `known` is in the topology, whatever files are missing.
#pragma once

#include <string>

#include "agent/core/cpu_count.h"
#include "agent/core/topology.h"

namespace muster {

// `known`: CPUs that are there for certain, since workers may use them. `cuda_visible` as
// CUDA_VISIBLE_DEVICES has it; null = not set. `root`: in front of /sys and /proc; tests only.
Topology ReadTopology(const CpuSet& known, const char* cuda_visible = nullptr,
                      const std::string& root = "");

}  // namespace muster
