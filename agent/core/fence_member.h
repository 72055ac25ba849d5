// An agent's side of the fences of a round (proto/base/fence.h). Pure.
//
// Invariants (cited by tests):
//  F1 each fence entered is left once, with the text of all or the reason why there is none;
//  F2 pieces lost with a connection, or with a master that had heard them, are said again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/fence.h"

namespace muster {

class FenceMember {
 public:
  // Of what goes out the caller fills in who it is.
  using Pieces = std::vector<FencePiece>;
  struct Taken {
    std::optional<FencePiece> ask;                      // for the rest
    std::optional<absl::StatusOr<std::string>> result;  // the fence is left
  };

  void BeginRound(RoundId round);
  // Not before the fence entered last has been left.
  Pieces Enter(std::string text);
  // The connection is new, and maybe the master.
  Pieces Again();
  Taken Take(const FencePiece& piece);

 private:
  void Say(uint32_t number, const std::string& text, Pieces& out) const;

  RoundId round_;
  uint32_t number_ = 0;  // of the fence entered last
  bool waits_ = false;
  std::string text_;         // what was said in it
  std::string text_before_;  // and in the one before
  std::string got_;
};

}  // namespace muster
