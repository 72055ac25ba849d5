// A fence: each node of a round says something, and hears what all have said once all of them have.
// It is what PMI calls a barrier, and PMIx a fence with data. Texts go through the master, in
// pieces; those that come down are asked for one by one, so that no more of them is under way.
//
// Fences of a round are numbered 1, 2, ... by each node for itself: all enter the same ones, and
// none enters the next one before it has left this one. So two nodes are one fence apart at most,
// and a master that knows nothing of the round learns what it needs when each node says its last
// two texts once more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "proto/base/ids.h"

namespace muster {

// Of the text in one message; a thousand of them at once are bearable. wire
inline constexpr size_t kFencePieceBytes = 128u << 10;

struct FencePiece {
  NodeId node;  // that sends it, or is meant, in this life
  Incarnation incarnation;
  RoundId round;
  uint32_t number = 0;
  uint64_t size = 0;    // of the whole text: of the node, or of all in the order of node ranks
  uint64_t offset = 0;  // of this piece in it
  absl::Cord bytes;     // shared: of a text of all each node gets its copy
  bool asks = false;    // of a node: it wants the text of all from `offset` on, and says nothing
  std::string refused;  // by the master: why there is no text of all; "" = there is one
};

}  // namespace muster
