// Direct modex of PMIx: a rank wants what another one, on another node, has put, without a fence.
// Its node asks that node, through the master, and is answered with all of it. Either message may
// be lost: the node that asks does so again, until it is answered or its patience ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "proto/base/ids.h"

namespace muster {

// What one rank has put; a business card has a few hundred bytes. wire
inline constexpr size_t kModexBytesMax = 64u << 10;

struct ModexNote {
  NodeId node;  // that sends it, or is meant, in this life
  Incarnation incarnation;
  RoundId round;
  uint32_t peer = 0;     // the rank in the round of the other node: of whom it is for, or from
  uint32_t rank = 0;     // whose data it is about
  bool answers = false;  // else it asks, and says nothing more
  std::string bytes;
  std::string refused;  // why there are no bytes; "" = these are all
};

// Notes that wait for a connection to take them; one that finds no room is lost.
class ModexQueue {
 public:
  // A hundred answers of the largest, or ten thousand asks.
  static constexpr size_t kBytesMax = 8u << 20;

  void Push(ModexNote note) {
    if (bytes_ + SizeOf(note) <= kBytesMax) {
      bytes_ += SizeOf(note);
      notes_.push_back(std::move(note));
    }
  }
  size_t bytes() const { return bytes_; }
  bool empty() const { return notes_.empty(); }
  ModexNote Pop() {
    ModexNote out = std::move(notes_.front());
    notes_.pop_front();
    bytes_ -= SizeOf(out);
    return out;
  }
  void Clear() { *this = ModexQueue(); }

 private:
  static size_t SizeOf(const ModexNote& note) {
    return sizeof(note) + note.bytes.size() + note.refused.size();
  }

  std::deque<ModexNote> notes_;
  size_t bytes_ = 0;
};

}  // namespace muster
