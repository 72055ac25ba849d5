// Cuts one worker's byte stream into whole lines. Pure.
//
// Invariants:
//  L1 the bytes given out, joined, are the bytes put in;
//  L2 a piece with ends_line ends at a newline; no piece has a newline before a part of a line that
//  goes on; L3 at most kLineBytesMax bytes are held back.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "proto/base/limits.h"

namespace muster {

class LineAssembler {
 public:
  struct Piece {
    std::string bytes;  // empty = nothing to give out
    bool ends_line = false;
    bool split = false;  // a line longer than kLineBytesMax was cut here
  };

  // Takes `bytes`; returns what may be shown now: all whole lines, or a split part of a too long
  // one.
  Piece Put(absl::string_view bytes) {
    const size_t newline = bytes.rfind('\n');
    Piece out;
    if (newline == absl::string_view::npos) {
      held_.append(bytes.data(), bytes.size());
      if (held_.size() >= kLineBytesMax) {
        out.bytes.swap(held_);
        out.split = true;
      }
      return out;
    }
    out.bytes.swap(held_);
    out.bytes.append(bytes.data(), newline + 1);
    out.ends_line = true;
    held_.assign(bytes.data() + newline + 1, bytes.size() - newline - 1);
    return out;
  }

  // The part of a line that waits for its end; taken for a terminal, or at the end of the stream.
  Piece TakeHeld() {
    Piece out;
    out.bytes.swap(held_);
    return out;
  }

  absl::string_view held() const { return held_; }

 private:
  std::string held_;
};

}  // namespace muster
