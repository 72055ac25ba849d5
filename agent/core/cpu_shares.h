// How the cores of a node are dealt out to its workers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/core/topology.h"

namespace muster {

using Cores = std::vector<size_t>;  // places in a list of cores, ascending

enum class Level : uint8_t { kPackage, kNuma, kL3Cache, kCore };

// What remains of the cores, in their order.
std::vector<TopologyCore> UsableCores(const Topology& topology, const CpuSet& allowed);

// The cores of each object of this level.
std::vector<Cores> Objects(const std::vector<TopologyCore>& cores, Level level);

// The object of each worker, in proportion to their cores and in order: worker w is where the
// middle of its part of all cores is.
std::vector<size_t> DealInProportion(const std::vector<Cores>& objects, size_t workers);

// For fewer workers than objects: neighbouring ones together, one run for each worker. Where they
// are too unlike for that, runs of cores.
std::vector<Cores> Runs(const std::vector<Cores>& objects, size_t workers);

// Shares of `object` for `workers` <= its cores: neighbours together, sizes that differ by one at
// most, and fast cores dealt out before slow ones.
std::vector<Cores> Shares(const std::vector<TopologyCore>& cores, const Cores& object,
                          size_t workers);

}  // namespace muster
