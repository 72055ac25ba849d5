#include "agent/core/topology.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace muster {
namespace {

uint32_t FirstCpu(const TopologyCore& core) { return core.cpus.Members().front(); }

// What one number means, depends on those in front of it: (package, NUMA node, L3).
using Place = std::tuple<uint32_t, uint32_t, uint32_t>;
Place PlaceOf(const TopologyCore& core) { return {core.package, core.numa, core.l3}; }

}  // namespace

void Arrange(Topology& topology) {
  std::vector<TopologyCore>& cores = topology.cores;
  std::sort(cores.begin(), cores.end(), [](const TopologyCore& a, const TopologyCore& b) {
    return std::pair(PlaceOf(a), FirstCpu(a)) < std::pair(PlaceOf(b), FirstCpu(b));
  });
  std::vector<uint32_t> numa_nodes;
  Place before;
  for (size_t i = 0; i < cores.size(); ++i) {
    const Place place = PlaceOf(cores[i]);
    const bool package = i > 0 && std::get<0>(place) != std::get<0>(before);
    const bool numa = package || (i > 0 && std::get<1>(place) != std::get<1>(before));
    const bool l3 = numa || (i > 0 && std::get<2>(place) != std::get<2>(before));
    if (!topology.numa_nodes.empty() && (i == 0 || numa)) {
      numa_nodes.push_back(topology.numa_nodes[cores[i].numa]);
    }
    cores[i].package = i == 0 ? 0 : cores[i - 1].package + (package ? 1 : 0);
    cores[i].numa = i == 0 ? 0 : cores[i - 1].numa + (numa ? 1 : 0);
    cores[i].l3 = i == 0 ? 0 : cores[i - 1].l3 + (l3 ? 1 : 0);
    before = place;
  }
  topology.numa_nodes = std::move(numa_nodes);
}

}  // namespace muster
