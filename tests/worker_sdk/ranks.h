// The ranks of a node as threads of the test, on one arena.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "proto/base/arena_memory.h"
#include "proto/base/check.h"
#include "worker_sdk/transport/arena.h"

namespace muster {

inline std::vector<uint32_t> RanksFrom(uint32_t first, uint32_t count) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < count; ++i) {
    out.push_back(first + i);
  }
  return out;
}

inline std::unique_ptr<Arena> MapArena(const UniqueFd& memory, const ArenaGeometry& geometry,
                                       uint32_t place, WaitPolicy policy = {}) {
  StatusOr<std::unique_ptr<Arena>> arena =
      Arena::Map(memory, geometry, place, RanksFrom(0, geometry.local_size), policy);
  CHECK(arena.ok());
  return *std::move(arena);
}

inline void RunRanks(uint32_t size, const std::function<void(uint32_t place)>& rank) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < size; ++i) {
    threads.emplace_back(rank, i);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace muster
