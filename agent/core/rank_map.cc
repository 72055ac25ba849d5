#include "agent/core/rank_map.h"

#include <algorithm>
#include <iterator>

#include "proto/base/check.h"

namespace muster {

RankMap::RankMap(const Assignment& assignment) : first_{0}, ranks_(assignment.ranks_by_node) {
  for (const auto& [workers, nodes] : assignment.layout) {
    for (uint32_t i = 0; i < nodes; ++i) {
      first_.push_back(first_.back() + workers);
    }
  }
  CHECK(first_.size() == size_t{assignment.nodes} + 1 && first_.back() == assignment.world_size);
  CHECK(ranks_.size() == (assignment.ranks.empty() ? 0 : assignment.world_size));
  node_of_.resize(ranks_.size());
  for (uint32_t node = 0; node < assignment.nodes && !ranks_.empty(); ++node) {
    std::sort(ranks_.begin() + first_[node], ranks_.begin() + first_[node + 1]);
    for (uint32_t i = first_[node]; i < first_[node + 1]; ++i) {
      CHECK(ranks_[i] < ranks_.size());
      node_of_[ranks_[i]] = node;
    }
  }
}

std::optional<NodeRank> RankMap::NodeOf(Rank rank) const {
  if (first_.empty() || rank.value >= first_.back()) {
    return std::nullopt;
  }
  if (!node_of_.empty()) {
    return NodeRank{node_of_[rank.value]};
  }
  const auto behind = std::upper_bound(first_.begin(), first_.end(), rank.value);
  return NodeRank{static_cast<uint32_t>(std::distance(first_.begin(), behind)) - 1};
}

std::vector<uint32_t> RankMap::Words() const {
  std::vector<uint32_t> out;
  for (size_t node = 1; node < first_.size(); ++node) {
    out.push_back(first_[node] - first_[node - 1]);
  }
  const uint32_t world = first_.empty() ? 0 : first_.back();
  for (uint32_t i = 0; i < world; ++i) {
    out.push_back(ranks_.empty() ? i : ranks_[i]);
  }
  return out;
}

}  // namespace muster
