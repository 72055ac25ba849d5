// Machines of many shapes, for tests of what is placed on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/core/topology.h"

namespace muster {

inline CpuSet CpusFrom(uint32_t first, uint32_t count) {
  CpuSet out;
  for (uint32_t i = 0; i < count; ++i) {
    out.Add(first + i);
  }
  return out;
}

struct Shape {
  uint32_t packages = 1;
  uint32_t numa = 1;     // of each package
  uint32_t l3 = 1;       // of each NUMA node
  uint32_t cores = 1;    // of each cache
  uint32_t threads = 1;  // of each core
};

// CPUs as Linux numbers them: the first threads of all cores, then the second ones.
inline Topology Machine(const Shape& shape) {
  Topology out;
  const uint32_t cores = shape.packages * shape.numa * shape.l3 * shape.cores;
  for (uint32_t i = 0; i < cores; ++i) {
    TopologyCore core;
    for (uint32_t thread = 0; thread < shape.threads; ++thread) {
      core.cpus.Add(thread * cores + i);
    }
    core.l3 = i / shape.cores;
    core.numa = core.l3 / shape.l3;
    core.package = core.numa / shape.numa;
    out.cores.push_back(core);
  }
  for (uint32_t i = 0; i < shape.packages * shape.numa; ++i) {
    out.numa_nodes.push_back(i);
  }
  return out;
}

inline CpuSet AllCpus(const Topology& topology) {
  CpuSet out;
  for (const TopologyCore& core : topology.cores) {
    out.Unite(core.cpus);
  }
  return out;
}

// 8 fast cores with two threads each, then 8 slow ones with one.
inline Topology HybridMachine() {
  Topology out;
  for (uint32_t i = 0; i < 8; ++i) {
    out.cores.push_back({CpusFrom(2 * i, 2), 0, 0, 0, 1});
  }
  for (uint32_t i = 0; i < 8; ++i) {
    out.cores.push_back({CpusFrom(16 + i, 1), 0, 0, 0, 0});
  }
  out.numa_nodes = {0};
  return out;
}

inline Topology WithGpus(Topology topology, const std::vector<uint32_t>& numa_of_each) {
  for (const uint32_t numa : numa_of_each) {
    TopologyDevice gpu;
    gpu.name = "gpu" + std::to_string(topology.gpus.size());
    for (const TopologyCore& core : topology.cores) {
      if (core.numa == numa) {
        gpu.near.Unite(core.cpus);
      }
    }
    topology.gpus.push_back(gpu);
  }
  return topology;
}

}  // namespace muster
