// Identities. Different ids are different types, so that a rank cannot be passed as a local rank.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace muster {

struct NodeId {  // given by the master when it admits a node; stays with the node over its lives
  uint32_t value = 0;
  auto operator<=>(const NodeId&) const = default;
};
struct Incarnation {  // one life of a node; given by the master, only grows within a job; 0 = none
  uint64_t value = 0;
  auto operator<=>(const Incarnation&) const = default;
};
struct NodeRank {  // place of a node in a round, 0..nodes-1
  uint32_t value = 0;
  auto operator<=>(const NodeRank&) const = default;
};
struct Rank {  // place of a worker in a round, 0..world_size-1
  uint32_t value = 0;
  auto operator<=>(const Rank&) const = default;
};
struct LocalRank {  // place of a worker on its node, 0..workers-1
  uint32_t value = 0;
  auto operator<=>(const LocalRank&) const = default;
};

// A rendezvous round: (epoch of the master, number). Only grows; {0,0} = no round yet. The fencing
// token of a job.
struct RoundId {
  uint32_t epoch = 0;
  uint32_t n = 0;
  auto operator<=>(const RoundId&) const = default;
  bool IsNone() const { return epoch == 0 && n == 0; }
  std::string ToString() const { return absl::StrCat(epoch, ".", n); }
  uint64_t Token() const { return (uint64_t{epoch} << 32) | n; }  // MUSTER_ROUND
};

}  // namespace muster
