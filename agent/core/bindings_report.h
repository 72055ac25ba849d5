// What `--report-bindings` and `--plan` say of who runs where. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/cpu_plan.h"
#include "agent/core/topology.h"

namespace muster {

struct NodePlaces {
  std::string host;
  const Topology& topology;  // both outlive the call that this is made for
  const CpuSet& allowed;
  std::vector<uint32_t> ranks;  // by local rank
  const CpuPlan& plan;
};

// A picture of the node, a line for each NUMA node with a cell for each core, and a line for each
// worker.
std::string PlacesText(const NodePlaces& node);

// The CPUs of one thread, as the kernel has them.
struct ThreadCpus {
  int32_t tid = 0;
  CpuSet cpus;
};

// What the kernel says of a worker's threads, in one line: they are where the plan has them, or
// which are elsewhere.
std::string ThreadsText(uint32_t rank, int32_t pid, const CpuSet& planned,
                        const std::vector<ThreadCpus>& threads);
// Any thread may run on a CPU that is not its worker's, or on fewer.
bool Drifted(const CpuSet& planned, const std::vector<ThreadCpus>& threads);

}  // namespace muster
