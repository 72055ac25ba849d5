// The master's side of the fences of a job's present round (proto/base/fence.h). Pure.
//
// Invariants (cited by tests):
//  B1 nobody hears of a fence that not all nodes have entered;
//  B2 all nodes hear the same text, also those that say theirs again;
//  B3 what is kept is bounded: kFencesKept fences of at most `bytes_max`, and by the room that the
//     caller has; answers share it;
//  B4 nobody waits in a fence for a node that is lost and has not entered it: the others are told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "proto/base/fence.h"
#include "proto/base/limits.h"

namespace muster {

// The last one left, which a node may have to hear again, and those that a node may be in.
inline constexpr size_t kFencesKept = 3;

class FenceBoard {
 public:
  struct Answer {
    uint32_t place = 0;  // of the node in the round
    FencePiece piece;    // the caller fills in whom it is for
  };

  explicit FenceBoard(size_t bytes_max = kFenceBytesMax) : bytes_max_(bytes_max) {}

  // What the pieces of many boards may add together, and why it is no more.
  struct Room {
    size_t bytes = SIZE_MAX;
    std::function<std::string()> why_no_more = nullptr;
  };

  // From the node at `place` of the present round, which has so many.
  std::vector<Answer> Take(const FencePiece& piece, uint32_t place, uint32_t nodes,
                           const Room& room);
  std::vector<Answer> Take(const FencePiece& piece, uint32_t place, uint32_t nodes) {
    return Take(piece, place, nodes, Room());
  }
  // The node at `place` of this round, the present one, enters no fence any more: `why`.
  std::vector<Answer> Lose(RoundId round, uint32_t place, const std::string& why);

  // That it keeps.
  size_t bytes() const;

 private:
  struct Part {
    absl::Cord text;
    bool whole = false;
  };
  struct Fence {
    std::vector<Part> parts;  // by place, until all have entered
    size_t entered = 0;
    size_t bytes = 0;  // of the parts
    bool done = false;
    absl::Cord text;
    std::string refused;
  };

  void BeginRound(RoundId round);
  // False: it says nothing new.
  bool Hear(const FencePiece& piece, Part& part, Fence& fence, const Room& room) const;
  void Complete(uint32_t number, Fence& fence);
  FencePiece PieceOf(uint32_t number, const Fence& fence, uint64_t offset) const;
  void TellAll(uint32_t number, const Fence& fence, size_t nodes, std::vector<Answer>& out) const;

  const size_t bytes_max_;
  RoundId round_;
  std::map<uint32_t, Fence> fences_;      // by number
  std::map<uint32_t, std::string> lost_;  // by place: why
};

}  // namespace muster
