// Ranks that send each other messages, all threads of one process.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/base/arena_memory.h"
#include "proto/base/check.h"
#include "tests/worker_sdk/layouts.h"
#include "tests/worker_sdk/ranks.h"
#include "worker_sdk/transport/messages.h"

namespace muster {

constexpr std::chrono::seconds kNever{0};
constexpr std::chrono::seconds kLong{100};

// A world that a test runs in.
struct Where {
  const char* name;
  std::vector<uint32_t> sizes;
  bool direct = false;
};
inline std::string NameOf(const testing::TestParamInfo<Where>& tested) { return tested.param.name; }

// What the agents do for ranks on nodes of these sizes.
class World {
 public:
  explicit World(const std::vector<uint32_t>& sizes, bool directly = false)
      : layout(Deal(sizes, false)), direct(directly) {
    CHECK(reader.Meet(std::vector<DirectCard>(layout.world(), reader.card())));
    for (uint32_t node = 0; node < layout.nodes(); ++node) {
      memory_.push_back(MakeArenaMemory(GeometryOf(node)));
    }
  }

  class Source : public MessageSource {
   public:
    Source(World* world, uint32_t rank) : world_(world), rank_(rank) {}
    Status Seek(uint32_t rank) override { return world_->Seek(rank_, rank); }
    std::optional<StatusOr<UniqueFd>> Take(uint32_t rank) override {
      return world_->Take(rank_, rank);
    }
    void Blame(uint32_t rank) override { blamed.push_back(rank); }
    std::vector<uint32_t> blamed;

   private:
    World* const world_;
    const uint32_t rank_;
  };
  struct Rank {
    Source source;
    std::unique_ptr<Arena> arena;
    Messages messages;
    Rank(World* world, uint32_t rank)
        : source(world, rank),
          arena(world->Open(rank)),
          messages(arena.get(), &world->layout, &source) {
      if (world->direct) {
        messages.SetDirect(&world->reader);
      }
    }
  };

  // As the agent, that this rank's process has ended.
  void Mark(uint32_t rank, LineEnd how) {
    const Layout::Seat seat = layout.SeatOf(rank);
    InArena(seat.node, [&](uint8_t* arena) {
      auto* const line = reinterpret_cast<ArenaLine*>(arena + ArenaGeometry().LinesAt() +
                                                      seat.place * ArenaGeometry::kLineBytes);
      std::atomic_ref(line->gone).store(static_cast<uint32_t>(how));
    });
  }
  // As the agents, that the round is over.
  void MarkOver() {
    for (uint32_t node = 0; node < layout.nodes(); ++node) {
      InArena(node, [](uint8_t* arena) {
        auto* const header = reinterpret_cast<ArenaHeader*>(arena);
        header->over_place = -1;
        std::string("over").copy(header->over_why, sizeof(header->over_why));
        std::atomic_ref(header->over).store(1);
      });
    }
  }

  const Layout layout;
  bool direct = false;
  DirectReader reader;  // of this process's memory: all ranks are its threads
  std::function<void(int fd)> prepare = [](int) {};
  Status refusal;  // of every seek

 private:
  ArenaGeometry GeometryOf(uint32_t node) const {
    return ArenaFor(layout.SizeOf(node), layout.nodes(), layout.world());
  }
  void InArena(uint32_t node, const std::function<void(uint8_t*)>& write) const {
    const uint64_t bytes = GeometryOf(node).Bytes();
    void* const mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_[node].get(), 0);
    CHECK(mapped != MAP_FAILED);
    write(static_cast<uint8_t*>(mapped));
    munmap(mapped, bytes);
  }
  std::unique_ptr<Arena> Open(uint32_t rank) {
    const Layout::Seat seat = layout.SeatOf(rank);
    std::vector<uint32_t> ranks;
    for (uint32_t place = 0; place < layout.SizeOf(seat.node); ++place) {
      ranks.push_back(layout.RankOf(seat.node, place));
    }
    StatusOr<std::unique_ptr<Arena>> arena =
        Arena::Map(memory_[seat.node], GeometryOf(seat.node), seat.place, std::move(ranks), {});
    CHECK(arena.ok());
    return *std::move(arena);
  }
  Status Seek(uint32_t mine, uint32_t theirs) {
    const std::lock_guard lock(mutex_);
    if (!refusal.ok()) {
      return refusal;
    }
    sought_.insert({mine, theirs});
    if (sought_.count({theirs, mine}) == 0) {
      return {};
    }
    if (layout.SeatOf(mine).node == layout.SeatOf(theirs).node) {
      UniqueFd pipe(memfd_create("pipe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
      CHECK(ftruncate(pipe.get(), sizeof(Pipe)) == 0);
      CHECK(fcntl(pipe.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
      ends_[{mine, theirs}] = UniqueFd(dup(pipe.get()));
      ends_[{theirs, mine}] = std::move(pipe);
    } else {
      std::tie(ends_[{mine, theirs}], ends_[{theirs, mine}]) = TcpPair(prepare);
    }
    return {};
  }
  std::optional<StatusOr<UniqueFd>> Take(uint32_t mine, uint32_t theirs) {
    const std::lock_guard lock(mutex_);
    const auto at = ends_.find({mine, theirs});
    if (at == ends_.end()) {
      return std::nullopt;
    }
    return StatusOr<UniqueFd>(std::move(at->second));
  }

  std::vector<UniqueFd> memory_;
  std::mutex mutex_;
  std::set<std::pair<uint32_t, uint32_t>> sought_;
  std::map<std::pair<uint32_t, uint32_t>, UniqueFd> ends_;  // by {whose, to whom}
};

}  // namespace muster
