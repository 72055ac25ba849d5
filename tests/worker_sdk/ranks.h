// The ranks of a job as threads of the test, on an arena for each node.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "proto/base/arena_memory.h"
#include "proto/base/check.h"
#include "tests/proto/base/tcp_pair.h"
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

inline ArenaGeometry OneNode(uint32_t size) { return ArenaFor(size, 1, size); }

// What the agents do: each side of a connection asks for it.
class Broker {
 public:
  std::function<void(int fd)> prepare = [](int) {};

  Status Connect(uint32_t me, const std::vector<uint32_t>& ranks,
                 const std::function<void(uint32_t rank, UniqueFd fd)>& take,
                 const std::function<Status(uint32_t rank)>& give_up) {
    std::unique_lock lock(mutex_);
    for (const uint32_t rank : ranks) {
      asked_.insert({me, rank});
      if (asked_.count({rank, me}) != 0) {
        auto [mine, theirs] = TcpPair(prepare);
        ends_[{me, rank}] = std::move(mine);
        ends_[{rank, me}] = std::move(theirs);
        changed_.notify_all();
      }
    }
    for (const uint32_t rank : ranks) {
      while (ends_.count({me, rank}) == 0) {
        if (changed_.wait_for(lock, std::chrono::milliseconds(50)) == std::cv_status::timeout) {
          if (Status status = give_up(rank); !status.ok()) {
            return status;
          }
        }
      }
      take(rank, std::move(ends_[{me, rank}]));
    }
    return {};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::pair<uint32_t, uint32_t>> asked_;
  std::map<std::pair<uint32_t, uint32_t>, UniqueFd> ends_;  // by {whose, to whom}
};

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
