// Ways to deal ranks to nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "worker_sdk/algorithm/layout.h"

namespace muster {

// `cyclic`: rank 0 on node 0, rank 1 on node 1, ... as far as there is room.
inline Layout Deal(const std::vector<uint32_t>& sizes, bool cyclic) {
  std::vector<std::vector<uint32_t>> nodes(sizes.size());
  const uint32_t world = std::accumulate(sizes.begin(), sizes.end(), 0u);
  size_t node = 0;
  for (uint32_t rank = 0; rank < world; ++rank) {
    while (nodes[node].size() == sizes[node]) {
      node = (node + 1) % sizes.size();
    }
    nodes[node].push_back(rank);
    node = cyclic ? (node + 1) % sizes.size() : node;
  }
  std::vector<uint32_t> ranks;
  for (const std::vector<uint32_t>& one : nodes) {
    ranks.insert(ranks.end(), one.begin(), one.end());
  }
  return {sizes, std::move(ranks)};
}

}  // namespace muster
