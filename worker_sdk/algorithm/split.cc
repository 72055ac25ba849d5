#include "worker_sdk/algorithm/split.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "proto/base/rng.h"
#include "proto/base/worker_link.h"

namespace muster {

SplitGroup GroupOf(const Layout& all, const std::vector<SplitWish>& wishes, uint32_t rank) {
  std::vector<uint32_t> members;  // by new rank
  for (uint32_t i = 0; i < all.world(); ++i) {
    if (wishes[i].color == wishes[rank].color) {
      members.push_back(i);
    }
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return wishes[a].key < wishes[b].key; });
  std::vector<std::vector<uint32_t>> by_node(all.nodes());
  std::vector<uint32_t> in_job;
  for (uint32_t i = 0; i < members.size(); ++i) {
    by_node[all.SeatOf(members[i]).node].push_back(i);
    in_job.push_back(all.InJob(members[i]));
  }
  std::vector<uint32_t> sizes;
  std::vector<uint32_t> ranks;
  for (const std::vector<uint32_t>& node : by_node) {
    if (!node.empty()) {
      sizes.push_back(static_cast<uint32_t>(node.size()));
      ranks.insert(ranks.end(), node.begin(), node.end());
    }
  }
  const auto mine = std::find(members.begin(), members.end(), rank);
  return {Layout(sizes, std::move(ranks), std::move(in_job)),
          static_cast<uint32_t>(std::distance(members.begin(), mine))};
}

uint64_t GroupNumber(uint64_t parent, uint64_t splits, int64_t color) {
  uint64_t out = 0;
  for (const uint64_t word : {parent, splits, static_cast<uint64_t>(color)}) {
    out = SplitMix64(out ^ word).Next();
  }
  return std::max(out, kGroupMin);
}

}  // namespace muster
