// A world of ranks in memory: schedules run in it one step of a random rank at a time. Checked: the
// rules S1..S8 of schedule.h, by what a rank has waited for, not by what happens to be true. A
// message leaves its sender's memory at the last possible moment: when it is received.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "worker_sdk/algorithm/schedule.h"

namespace muster {

inline constexpr uint64_t kWord = 8;  // all of the calls here are about int64
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
  World(Layout l, uint64_t slot_bytes, uint32_t carriers, const Call& c)
      : layout(std::move(l)), call(c), ranks(layout.world()), areas(layout.nodes()) {
    for (uint32_t i = 0; i < ranks.size(); ++i) {
      const Layout::Seat seat = layout.SeatOf(layout.RankAt(i));
      ranks[i].seat = seat;
      ranks[i].known.assign(layout.SizeOf(seat.node), 0);
      MakeSchedule({&layout, seat.node, seat.place, slot_bytes, slot_bytes * layout.SmallestNode(),
                    carriers},
                   c, ranks[i].steps);
    }
  }
  struct Rank {
    Layout::Seat seat;
    std::vector<Step> steps;
    size_t at = 0;
    uint64_t phase = 0;
    std::vector<uint64_t> known;  // phase of each rank of the node that this one has waited for
    std::vector<int64_t> in;      // empty where it is `out`
    std::vector<int64_t> out;
    std::vector<int64_t> scratch;
    std::vector<int64_t> narrow;
    std::vector<Message> sent;  // not yet received
    uint64_t sends = 0;         // begun
    uint64_t received = 0;      // of them
  };
  bool in_place = false;  // `in` begins where `out` does
  Rank& Peer(const Rank& rank, uint32_t place) {
    return ranks[layout.First(rank.seat.node) + place];
  }
  const Layout layout;
  const Call call;
  std::vector<Rank> ranks;
  // By node and area: what AreaOf() says of a Ref.
  std::vector<std::vector<std::vector<Cell>>> areas;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> wire;  // {sender, receiver}
};

// Until every rank has done all its steps; what breaks a rule is a failure of the test.
void RunAll(World& world, uint64_t seed);

}  // namespace muster
