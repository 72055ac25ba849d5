// What a node is made of, as far as the places of its workers are concerned. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/cpu_count.h"

namespace muster {

// Package, NUMA node and L3 cache are numbered in the order of the cores, each through the whole
// node; a core has one of each, also where nothing is known of them.
struct TopologyCore {
  CpuSet cpus;  // its hardware threads
  uint32_t package = 0;
  uint32_t numa = 0;
  uint32_t l3 = 0;
  uint32_t speed = 0;  // of machines with several kinds of cores: more is faster
};

struct TopologyDevice {
  std::string name;  // "0000:17:00.0", "mlx5_0"
  std::string uuid;  // of a GPU; "" = not known
  CpuSet near;       // its NUMA node's CPUs; empty = not known
};

struct Topology {
  std::vector<TopologyCore> cores;   // neighbours together: by package, NUMA node, L3, first CPU
  std::vector<uint32_t> numa_nodes;  // the kernel's number of each; empty = nothing is known
  std::vector<TopologyDevice> gpus;  // in the order of their addresses, as CUDA has equal ones
  std::vector<TopologyDevice> nics;  // RDMA devices
};

// Puts the cores in order, and numbers packages, NUMA nodes and caches anew: whatever numbers a
// reader has for them, as long as equal ones mean the same.
void Arrange(Topology& topology);

}  // namespace muster
