// Where every rank of a round is: from the assignment, which all agents of the round have got
// alike.
//
// Invariants (cited by tests):
//  R1 every rank of 0..world_size-1 is of exactly one node;
//  R2 all agents of a round make the same words of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/messages.h"

namespace muster {

class RankMap {
 public:
  RankMap() = default;  // of no rank
  // The layout is that of the round (CHECKed; proto/wire refuses others).
  explicit RankMap(const Assignment& assignment);

  // nullopt: there is no such rank.
  std::optional<NodeRank> NodeOf(Rank rank) const;
  // As worker_link.h lays out the arena's map: the number of ranks of each node, then those of node
  // 0 in ascending order, of node 1, ...
  std::vector<uint32_t> Words() const;

 private:
  std::vector<uint32_t> first_;    // index in `ranks_` of each node's first one, and of none
  std::vector<uint32_t> ranks_;    // node by node, ascending within each; empty = all ascend
  std::vector<uint32_t> node_of_;  // by rank; empty where `ranks_` is
};

}  // namespace muster
