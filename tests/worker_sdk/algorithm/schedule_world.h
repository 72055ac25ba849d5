// A world of ranks in memory: schedules run in it one step of a random rank at a time. Checked: the
// rules S1..S10 of schedule.h, by what a rank has waited for, not by what happens to be true. A
// message leaves its sender's memory at the last possible moment: when it is received.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "worker_sdk/algorithm/schedule.h"

namespace muster {

// Means are taken of numbers below this prime: each has an inverse there, and none is rounded.
inline constexpr int64_t kPrime = 2147483647;
int64_t MeanOf(int64_t sum, int64_t n);  // of a sum that is not negative

inline constexpr uint64_t kWord = 8;  // bytes of a number here, whatever type a call names
// Narrow numbers are multiples of it: what is narrowed is rounded down.
inline constexpr int64_t kNarrowUnit = 16;

// Words of the arena: what is there, who wrote it, and for which phase.
struct Cell {
  int64_t value = 0;
  uint32_t writer = 0;  // its place
  uint64_t phase = 0;   // 0: nothing yet
};

struct Message {
  uint32_t sender = 0;  // position
  Ref src;
  uint64_t phase = 0;  // of the sender, when it began
  uint64_t words = 0;
  uint64_t number = 0;  // among the sender's
};

// Words that a rank has read from another's memory.
struct DirectRead {
  uint32_t reader = 0;  // its place
  uint64_t phase = 0;   // of the reader; when it publishes the next one, it has read
  Space space = Space::kIn;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// As large as it is used.
template <typename Word>
Word& WordOf(std::vector<Word>& words, uint64_t at) {
  if (at >= words.size()) {
    words.resize(at + 1);
  }
  return words[at];
}

// Ranks are counted node by node: by position.
struct World {
  World(Layout l, uint64_t slot, uint32_t many, const Call& c)
      : layout(std::move(l)),
        call(c),
        slot_bytes(slot),
        carriers(many),
        ranks(layout.world()),
        areas(layout.nodes()) {
    for (uint32_t i = 0; i < ranks.size(); ++i) {
      const Layout::Seat seat = layout.SeatOf(layout.RankAt(i));
      ranks[i].seat = seat;
      ranks[i].known.assign(layout.SizeOf(seat.node), 0);
    }
  }
  struct Rank {
    Layout::Seat seat;
    Progress progress;
    std::vector<Step> steps;  // the part that it is in
    size_t at = 0;
    // What the first part speaks of.
    std::set<uint32_t> peers;
    uint64_t private_bytes[2] = {};  // kScratch, kNarrow
    uint64_t phase = 0;
    std::vector<uint64_t> known;  // phase of each rank of the node that this one has waited for
    std::vector<int64_t> in;      // empty where it is in `out`
    uint64_t in_at = 0;           // there, from this word on
    uint64_t out_at = 0;          // `out` itself begins there
    std::vector<int64_t> out;
    std::vector<int64_t> scratch;
    std::vector<int64_t> narrow;
    std::optional<Ref> told;  // with the phase it is in, or the next
    uint64_t told_phase = 0;
    std::vector<DirectRead> reads;  // by others, from this one
    std::vector<Message> sent;      // not yet received
    uint64_t sends = 0;             // begun
  };
  bool in_place = false;  // `in` lies in `out`, or `out` in `in`
  Rank& Peer(const Rank& rank, uint32_t place) {
    return ranks[layout.First(rank.seat.node) + place];
  }
  const Layout layout;
  const Call call;
  const uint64_t slot_bytes;
  const uint32_t carriers;
  uint32_t ahead = 1;
  bool direct = false;
  std::optional<StepKind> without;  // steps that are left out
  std::vector<Rank> ranks;
  // By node and area: what AreaOf() says of a Ref.
  std::vector<std::vector<std::vector<Cell>>> areas;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> wire;  // {sender, receiver}
};

// Until every rank has done all its steps; what breaks a rule is a failure of the test.
void RunAll(World& world, uint64_t seed);

}  // namespace muster
