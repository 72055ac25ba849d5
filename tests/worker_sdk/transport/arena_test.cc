#include "worker_sdk/transport/arena.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker_sdk/ranks.h"

namespace muster {
namespace {

using testing::HasSubstr;

const auto never = [](uint32_t) { return Status(); };

// What the agent writes into a rank's line.
void MarkGone(const UniqueFd& memory, const ArenaGeometry& geometry, uint32_t place, LineEnd how) {
  void* mapped =
      mmap(nullptr, geometry.Bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* line = reinterpret_cast<ArenaLine*>(static_cast<uint8_t*>(mapped) + geometry.LinesAt() +
                                            place * ArenaGeometry::kLineBytes);
  std::atomic_ref<uint32_t>(line->gone).store(static_cast<uint32_t>(how));
  munmap(mapped, geometry.Bytes());
}

// What it writes when the round is over.
void MarkOver(const UniqueFd& memory, const std::string& why, int32_t place) {
  void* mapped =
      mmap(nullptr, sizeof(ArenaHeader), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* header = reinterpret_cast<ArenaHeader*>(mapped);
  why.copy(header->over_why, sizeof(header->over_why));  // no end: it is as long as can be
  header->over_place = place;
  std::atomic_ref<uint32_t>(header->over).store(1);
  munmap(mapped, sizeof(ArenaHeader));
}

TEST(ArenaTest, GeometryHasRoomForEveryone) {
  for (const uint32_t size : {1u, 2u, 3u, 8u, 9u, 32u, 33u, 1024u, 4096u}) {
    const ArenaGeometry geometry = OneNode(size);
    EXPECT_EQ(geometry.slot_bytes % ArenaGeometry::kPage, 0u);
    EXPECT_GE(geometry.slot_bytes, uint64_t{size} * 64);
    EXPECT_GE(geometry.SlotsAt() - geometry.LinesAt(), size * ArenaGeometry::kLineBytes);
    EXPECT_EQ(geometry.Bytes() - geometry.ResultsAt(), 2 * geometry.slot_bytes);
  }
}

TEST(ArenaTest, WhatIsNoArenaIsRefused) {
  const ArenaGeometry geometry = OneNode(2);
  const UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), static_cast<off_t>(geometry.Bytes())), 0);
  EXPECT_FALSE(Arena::Map(unsealed, geometry, 0, {0, 1}, {}).ok());  // may shrink below us: SIGBUS
  const UniqueFd small = MakeArenaMemory(OneNode(1));
  EXPECT_FALSE(Arena::Map(small, OneNode(8), 0, RanksFrom(0, 8), {}).ok());
  const UniqueFd good = MakeArenaMemory(geometry);
  EXPECT_FALSE(Arena::Map(good, geometry, 2, {0, 1}, {}).ok());
  EXPECT_FALSE(Arena::Map(good, geometry, 0, {0}, {}).ok());
  EXPECT_FALSE(Arena::Map(UniqueFd(), geometry, 0, {0, 1}, {}).ok());
  EXPECT_TRUE(Arena::Map(good, geometry, 1, {0, 1}, {}).ok());
}

class ArenaWaitTest : public testing::TestWithParam<WaitPolicy> {};

// Nobody passes a phase before all have come to it, however they wait.
TEST_P(ArenaWaitTest, PhasesKeepTogether) {
  constexpr uint32_t kRanks = 5;
  constexpr uint64_t kPhases = 300;
  const ArenaGeometry geometry = OneNode(kRanks);
  const UniqueFd memory = MakeArenaMemory(geometry);
  std::atomic<uint64_t> came[kPhases + 1] = {};
  RunRanks(kRanks, [&](uint32_t place) {
    const std::unique_ptr<Arena> arena = MapArena(memory, geometry, place, GetParam());
    for (uint64_t phase = 1; phase <= kPhases; ++phase) {
      *arena->SlotNext(place) = static_cast<uint8_t>(phase * kRanks + place);
      came[phase].fetch_add(1);
      arena->Publish();
      ASSERT_TRUE(arena->WaitForAll(never).ok());
      ASSERT_EQ(came[phase].load(), kRanks);
      for (uint32_t i = 0; i < kRanks; ++i) {
        ASSERT_EQ(*arena->SlotNow(i), static_cast<uint8_t>(phase * kRanks + i));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Policies, ArenaWaitTest,
                         testing::Values(WaitPolicy{1000, std::chrono::microseconds(200)},
                                         WaitPolicy{0, std::chrono::microseconds(200)},
                                         WaitPolicy{0, std::chrono::microseconds(0)}),
                         [](const testing::TestParamInfo<WaitPolicy>& i) {
                           return i.param.spins != 0            ? "spin"
                                  : i.param.yields.count() != 0 ? "yield"
                                                                : "sleep";
                         });

TEST(ArenaTest, ARankThatDiedIsNotWaitedFor) {
  const ArenaGeometry geometry = OneNode(2);
  const UniqueFd memory = MakeArenaMemory(geometry);
  const std::unique_ptr<Arena> arena = MapArena(memory, geometry, 0);
  {
    const std::unique_ptr<Arena> other = MapArena(memory, geometry, 1);
    other->Publish();
  }
  MarkGone(memory, geometry, 1, LineEnd::kDied);
  arena->Publish();
  EXPECT_TRUE(arena->WaitForAll(never).ok()) << "what it had done before counts";
  arena->Publish();
  const Status status = arena->WaitForAll(never);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "rank 1 has died");
  EXPECT_EQ(status.peer(), 1);
  MarkGone(memory, geometry, 1, LineEnd::kClosed);
  EXPECT_EQ(arena->WaitFor(1, never).code(), StatusCode::kFailedPrecondition);
}

TEST(ArenaTest, TheFirstFailureEndsEveryWait) {
  const ArenaGeometry geometry = OneNode(3);
  const UniqueFd memory = MakeArenaMemory(geometry);
  const std::unique_ptr<Arena> waits = MapArena(memory, geometry, 0);
  const std::unique_ptr<Arena> fails = MapArena(memory, geometry, 1);
  EXPECT_TRUE(waits->failure().ok());
  fails->Fail({StatusCode::kFailedPrecondition, std::string(5000, 'x'), 2});
  fails->Fail({StatusCode::kInternal, "later"});
  waits->Publish();
  const Status status = waits->WaitForAll(never);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), std::string(sizeof(ArenaHeader::failure) - 1, 'x'));
  EXPECT_EQ(status.peer(), 2);
}

TEST(ArenaTest, TheEndOfTheRoundEndsEveryWaitButAFailureSaysMore) {
  const ArenaGeometry geometry = OneNode(3);
  const UniqueFd memory = MakeArenaMemory(geometry);
  StatusOr<std::unique_ptr<Arena>> mapped = Arena::Map(memory, geometry, 0, {4, 6, 8}, {});
  ASSERT_TRUE(mapped.ok());
  Arena& arena = **mapped;
  EXPECT_TRUE(arena.over().ok());
  MarkOver(memory, std::string(1000, 'x'), 2);
  arena.Publish();
  const Status status = arena.WaitForAll(never);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), std::string(sizeof(ArenaHeader::over_why), 'x'));
  EXPECT_EQ(status.peer(), 8);
  MarkOver(memory, "", -1);
  EXPECT_EQ(arena.over().peer(), -1);
  arena.Fail({StatusCode::kUnavailable, "rank 6 has died", 6});
  EXPECT_EQ(arena.WaitForAll(never).message(), "rank 6 has died");
}

TEST(ArenaTest, AWaitCountsForWhomItWas) {
  const ArenaGeometry geometry = OneNode(3);
  const UniqueFd memory = MakeArenaMemory(geometry);
  const std::unique_ptr<Arena> ours = MapArena(memory, geometry, 0);
  const std::unique_ptr<Arena> early = MapArena(memory, geometry, 1);
  const std::unique_ptr<Arena> late = MapArena(memory, geometry, 2);
  ours->Publish();
  early->Publish();
  const auto comes_now = [&](uint32_t rank) {  // asked after a sleep
    EXPECT_EQ(rank, 2u);
    late->Publish();
    return Status();
  };
  EXPECT_TRUE(ours->WaitForAll(comes_now).ok());
  EXPECT_GT(ours->waited(2).count(), 0);
  EXPECT_EQ(ours->waited(0).count() + ours->waited(1).count(), 0);
}

TEST(ArenaTest, WhoeverWaitsMayGiveUp) {
  const ArenaGeometry geometry = OneNode(2);
  const UniqueFd memory = MakeArenaMemory(geometry);
  const std::unique_ptr<Arena> arena = MapArena(memory, geometry, 0);
  arena->Publish();
  int asked = 0;
  const Status status = arena->WaitForAll([&](uint32_t place) {
    EXPECT_EQ(place, 1u);
    return ++asked < 3 ? Status() : Status(StatusCode::kDeadlineExceeded, "enough");
  });
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(asked, 3);
}

TEST(ArenaTest, WhoWaitsKnowsWhetherTheOtherOneNeedsItsCore) {
  const ArenaGeometry geometry = OneNode(2);
  const UniqueFd memory = MakeArenaMemory(geometry);
  const std::unique_ptr<Arena> zero = MapArena(memory, geometry, 0);
  const std::unique_ptr<Arena> one = MapArena(memory, geometry, 1);
  EXPECT_FALSE(zero->SharesCore(1));  // it has not waited yet
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  const auto run_on = [](size_t core) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
  };
  for (size_t a = 0; a < CPU_SETSIZE; ++a) {
    for (size_t b = 0; b < CPU_SETSIZE && CPU_ISSET(a, &allowed); ++b) {
      if (CPU_ISSET(b, &allowed)) {
        run_on(a);
        (void)zero->SharesCore(1);
        run_on(b);
        EXPECT_EQ(one->SharesCore(0), a == b);
      }
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
}

}  // namespace
}  // namespace muster
