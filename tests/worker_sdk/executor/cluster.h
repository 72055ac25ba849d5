// Executors of a whole job in one process, and calls for them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker_sdk/layouts.h"
#include "tests/worker_sdk/patterns.h"
#include "tests/worker_sdk/ranks.h"
#include "worker_sdk/executor/executor.h"

namespace muster {

// Ranks on nodes of these sizes, dealt as Deal() does.
struct Cluster {
  explicit Cluster(const std::vector<uint32_t>& sizes, bool cyclic = false)
      : layout(Deal(sizes, cyclic)) {
    for (const uint32_t size : sizes) {
      memory.push_back(MakeArenaMemory(ArenaFor(size, layout.nodes(), layout.world())));
    }
  }
  uint32_t size() const { return layout.world(); }
  // `connecting`: what happens before a rank asks for connections.
  Executor Open(
      uint32_t rank, const std::function<void(uint32_t)>& connecting = [](uint32_t) {}) {
    const Layout::Seat seat = layout.SeatOf(rank);
    std::vector<uint32_t> ranks;
    for (uint32_t place = 0; place < layout.SizeOf(seat.node); ++place) {
      ranks.push_back(layout.RankOf(seat.node, place));
    }
    const ArenaGeometry geometry =
        ArenaFor(layout.SizeOf(seat.node), layout.nodes(), layout.world());
    StatusOr<std::unique_ptr<Arena>> arena =
        Arena::Map(memory[seat.node], geometry, seat.place, std::move(ranks), {});
    CHECK(arena.ok());
    return Executor(*std::move(arena), layout,
                    [this, rank, connecting](const std::vector<uint32_t>& others,
                                             const Executor::Take& take, const Peers::GiveUp& up) {
                      connecting(rank);
                      return broker.Connect(rank, others, take, up);
                    });
  }
  // Large parts are read straight from the others' memory, which is all ours.
  std::unique_ptr<DirectReader> MeetDirectly() const {
    auto reader = std::make_unique<DirectReader>();
    CHECK(reader->Meet(std::vector<DirectCard>(size(), reader->card())));
    return reader;
  }
  const Layout layout;
  std::vector<UniqueFd> memory;
  Broker broker;
};

// One node and several, even and uneven.
inline const std::vector<std::vector<uint32_t>> shapes = {
    {1}, {2}, {3}, {7}, {1, 1}, {2, 2}, {1, 3}, {3, 1, 2}, {1, 1, 1}, {1, 2, 1, 1, 1, 1, 1, 2, 1},
};

inline Call Of(OpKind kind, uint64_t count, uint32_t root = 0, ReduceOp op = ReduceOp::kSum,
               DType dtype = DType::kFloat32) {
  return {kind, dtype, op, root, count};
}

constexpr uint64_t kInputPeriod = 1000;

inline std::vector<float> Input(uint32_t place, uint64_t count) {
  std::vector<float> out(count);
  for (uint64_t i = 0; i < std::min(count, kInputPeriod); ++i) {
    out[i] = static_cast<float>(place + 1) + static_cast<float>(i) / 8;
  }
  Repeat(out, kInputPeriod);
  return out;
}

// Whether `got` begins with Input(place, count); takes no large memory for that.
inline bool IsInput(const float* got, uint32_t place, uint64_t count) {
  const std::vector<float> period = Input(place, std::min(count, kInputPeriod));
  for (uint64_t at = 0; at < count; at += kInputPeriod) {
    const uint64_t next = std::min(count - at, kInputPeriod);
    if (!std::equal(got + at, got + at + next, period.begin())) {
      return false;
    }
  }
  return true;
}

inline bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

inline std::string Text(const Status& status) { return status.ToString(); }

// Sizes around those where the way of doing it changes.
inline constexpr uint64_t kCounts[] = {0, 1, 2, 3, 16, 1000, 5000, 40000, 200001};

}  // namespace muster
