// Which nodes a round gets and in which order. A pure function of the candidates.
//
// Invariants:
//  R1 node order follows the places asked for (host list, --node-rank), then the places kept from
//  earlier rounds, then the order of joining; a place asked for or kept is given exactly where it
//  can be, and where nodes are missing the others close up in order;
//  R2 two candidates never share a place: of two that kept the same one, the member of the last
//  round keeps it, else the one that joined first;
//  R3 with more candidates than places members of the last round come first, then as in R1.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/base/ids.h"

namespace muster {

struct Candidate {
  NodeId node;        // grows in order of joining
  int32_t wish = -1;  // place asked for; -1 = none
  std::optional<NodeRank> kept;
  bool was_member = false;  // of the last round
};

// At most `places` of the candidates, in order of node rank.
std::vector<NodeId> AssignRanks(std::vector<Candidate> candidates, uint32_t places);

}  // namespace muster
