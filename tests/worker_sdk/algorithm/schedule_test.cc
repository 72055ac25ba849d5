// Every schedule of every size and number of nodes, and what it must bring.
#include "worker_sdk/algorithm/schedule.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/rng.h"
#include "tests/worker_sdk/algorithm/schedule_check.h"
#include "tests/worker_sdk/algorithm/schedule_world.h"
#include "tests/worker_sdk/layouts.h"
#include "worker_sdk/algorithm/schedule_maker.h"

namespace muster {
namespace {

void CheckOne(uint32_t size, uint64_t slot_bytes, const Call& call, uint64_t seed) {
  CheckOne(Layout::OneNode(size), slot_bytes, 1, call, seed);
}

constexpr OpKind kKinds[] = {OpKind::kBarrier,   OpKind::kAllReduce,     OpKind::kReduce,
                             OpKind::kBroadcast, OpKind::kAllGather,     OpKind::kGather,
                             OpKind::kScatter,   OpKind::kReduceScatter, OpKind::kAllToAll,
                             OpKind::kSplit};

class ScheduleTest : public testing::TestWithParam<OpKind> {};

TEST_P(ScheduleTest, EverySizeOfNode) {
  for (uint32_t size = 1; size <= 64; ++size) {
    const uint64_t slot = size <= 8 ? 512 : 4096;
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{13}, slot / kWord + 3}) {
      if ((size > 16 && count > 1 && size % 8 != 1) || (size > 17 && count > 13)) {
        continue;  // the same paths as its neighbours
      }
      Call call{GetParam(), DType::kInt64, count % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAvg};
      call.root = (size * 5 + 3) % size;
      call.count = count;
      CheckOne(size, slot, call, uint64_t{size} * 131 + count);
      if (HasFailure()) {
        return;
      }
    }
  }
}

TEST_P(ScheduleTest, EveryCountAroundChunks) {
  for (const uint32_t size : {2u, 3u, 5u}) {
    constexpr uint64_t kSlot = 4096;
    for (const uint64_t count :
         {uint64_t{2}, uint64_t{8}, uint64_t{9}, kSlot / kWord - 1, kSlot / kWord,
          kSlot / kWord + 1, 2 * kSlot / kWord, 5 * kSlot / kWord + 17}) {
      for (uint32_t root = 0; root < size; ++root) {
        Call call{GetParam(), DType::kInt64, ReduceOp::kSum, root, count};
        CheckOne(size, kSlot, call, uint64_t{root} * 17 + count);
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

// Parts that are read straight from where they are, or just not.
TEST_P(ScheduleTest, EveryCountAroundDirectReads) {
  for (const uint32_t size : {2u, 3u, 4u, 7u}) {
    for (const uint64_t count : {uint64_t{1023}, uint64_t{1024}, uint64_t{4101}}) {
      for (uint32_t root = 0; root < size; ++root) {
        for (const bool in_place : {false, true}) {
          const Call call{GetParam(), DType::kInt64, ReduceOp::kSum, root, count};
          const bool may_be = GetParam() == OpKind::kAllGather || GetParam() == OpKind::kAllToAll;
          if (GetParam() != OpKind::kBarrier && (may_be || !in_place)) {
            RunOnce(Layout::OneNode(size), 4096, 1, call, in_place, uint64_t{root} * 31 + count,
                    true);
          }
          if (HasFailure()) {
            return;
          }
        }
      }
    }
  }
}

// Every world of 2..64 ranks, dealt to nodes in several uneven ways.
TEST_P(ScheduleTest, EveryWorldOnSeveralNodes) {
  SplitMix64 random(7);
  for (uint32_t world = 2; world <= 64; ++world) {
    for (uint32_t way = 0; way < 3; ++way) {
      if (world > 16 && way != world % 3) {
        continue;
      }
      const uint32_t most = std::min<uint32_t>(world, way == 0 ? 2 : way == 1 ? 8 : 64);
      const auto nodes = static_cast<uint32_t>(2 + random.Next() % (most - 1));
      std::vector<uint32_t> sizes(nodes, 1);
      for (uint32_t i = nodes; i < world; ++i) {
        ++sizes[random.Next() % nodes];
      }
      const Layout layout = Deal(sizes, way == 1);
      const uint64_t slot = std::max<uint64_t>(512, uint64_t{world} * 64);
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{13}, slot / kWord + 3}) {
        if ((count > 1 && world > 20 && world % 8 != 1) || (count > 13 && world > 33)) {
          continue;  // the same paths as its neighbours
        }
        Call call{GetParam(), DType::kInt64, count % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAvg};
        call.root = static_cast<uint32_t>(random.Next() % world);
        call.count = count;
        const auto carriers = static_cast<uint32_t>(1 + random.Next() % layout.SmallestNode());
        CheckOne(layout, slot, carriers, call, random.Next());
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

TEST_P(ScheduleTest, EveryCountAroundChunksOnSeveralNodes) {
  constexpr uint64_t kSlot = 16384;  // more than goes as a whole
  SplitMix64 random(11);
  for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{
           {1, 1}, {2, 2}, {1, 3}, {1, 1, 1}, {2, 3, 2}, {2, 2, 2, 2}}) {
    const Layout layout = Deal(sizes, sizes.size() == 4);
    for (const uint64_t count :
         {uint64_t{2}, uint64_t{9}, uint64_t{600}, kSlot / kWord - 1, kSlot / kWord,
          kSlot / kWord + 1, 3 * kSlot / kWord, 6 * kSlot / kWord + 17}) {
      for (uint32_t carriers = 1; carriers <= layout.SmallestNode(); ++carriers) {
        Call call{GetParam(), DType::kInt64, ReduceOp::kSum, 0, count};
        call.root = static_cast<uint32_t>(random.Next() % layout.world());
        CheckOne(layout, kSlot, carriers, call, random.Next());
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

// Many more chunks than come in one part; the last part has as many turns both times.
TEST_P(ScheduleTest, NoPartGrowsWithTheCall) {
  constexpr uint64_t kSlot = 1024;
  SplitMix64 random(13);
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{3}, {1, 1}, {2, 2, 3}, {1, 1, 1, 1}}) {
    const Layout layout = Deal(sizes, false);
    size_t steps[2] = {};
    for (const uint64_t chunks : {uint64_t{51}, uint64_t{101}}) {
      Call call{GetParam(), DType::kInt64, ReduceOp::kAvg, 0, chunks * kSlot / kWord};
      call.root = layout.world() - 1;
      CheckOne(layout, kSlot, 1, call, random.Next());
      Progress progress;
      std::vector<Step> part;
      while (!progress.done) {
        MakeSchedule({&layout, 0, 0, kSlot, kSlot * layout.SmallestNode(), 1}, call, progress,
                     part);
        steps[chunks > 51] = std::max(steps[chunks > 51], part.size());
      }
    }
    EXPECT_EQ(steps[0], steps[1]) << sizes.size() << " nodes";
    EXPECT_LT(steps[0], TurnsAtOnce(1) * 100) << sizes.size() << " nodes";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ScheduleTest, testing::ValuesIn(kKinds),
                         [](const testing::TestParamInfo<OpKind>& i) {
                           return std::string(Name(i.param));
                         });

// Failures that a schedule without steps of `kind` causes; 0 for a sound schedule.
int FailuresWithout(StepKind kind, const Call& call, const std::vector<uint32_t>& sizes = {3},
                    bool direct = false) {
  testing::TestPartResultArray failures;
  testing::ScopedFakeTestPartResultReporter reporter(
      testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    World world(Deal(sizes, false), 512, 1, call);
    world.without = kind;
    world.direct = direct;
    for (World::Rank& rank : world.ranks) {
      rank.in.assign(call.count * 3, 1);
      rank.out.assign(call.count * 3, 1);
    }
    RunAll(world, seed);
  }
  return failures.size();
}

TEST(ScheduleTest, AMissingWaitIsNoticed) {
  const Call broadcast{OpKind::kBroadcast, DType::kInt64, ReduceOp::kSum, 0, 200};
  EXPECT_EQ(FailuresWithout(StepKind::kDivide, broadcast), 0);
  EXPECT_GT(FailuresWithout(StepKind::kWaitOne, broadcast), 0);  // S4
  EXPECT_GT(FailuresWithout(StepKind::kWaitAll, broadcast), 0);  // S3
  const Call reduction{OpKind::kAllReduce, DType::kInt64, ReduceOp::kSum, 0, 1};
  EXPECT_GT(FailuresWithout(StepKind::kWaitAll, reduction), 0);
}

TEST(ScheduleTest, AMissingWaitOfDirectReadsIsNoticed) {
  for (const OpKind kind : {OpKind::kBroadcast, OpKind::kAllGather, OpKind::kGather,
                            OpKind::kScatter, OpKind::kAllToAll}) {
    const Call call{kind, DType::kInt64, ReduceOp::kSum, 1, 5000};
    const auto failures = [&](StepKind without) {
      return FailuresWithout(without, call, {2}, true);
    };
    EXPECT_EQ(failures(StepKind::kDivide), 0) << Name(kind);
    // Who has told of nothing in an all-to-all is not read from, nor is who has not been asked.
    EXPECT_EQ(failures(StepKind::kAsk), 0) << Name(kind);
    EXPECT_EQ(failures(StepKind::kTell) + failures(StepKind::kTellApart) > 0,
              kind != OpKind::kAllToAll)
        << Name(kind);
    EXPECT_GT(failures(StepKind::kWaitAll), 0) << Name(kind);
    const bool has_root = kind != OpKind::kAllGather && kind != OpKind::kAllToAll;
    EXPECT_EQ(failures(StepKind::kWaitOne) > 0, has_root) << Name(kind);
  }
}

TEST(ScheduleTest, WhereSlotsAreQuickOnlyAllToAllsAmongManyReadDirectly) {
  for (const uint32_t size : {2U, 3U}) {
    for (const OpKind kind : kKinds) {
      const Call call{kind, DType::kInt64, ReduceOp::kSum, 1, 100'000};
      const Layout layout = Layout::OneNode(size);
      Group group;
      group.layout = &layout;
      group.slot_bytes = group.result_bytes = 256u << 10;
      EXPECT_FALSE(IsDirect(group, call, {}));
      group.direct = true;
      const bool is_rooted =
          kind == OpKind::kBroadcast || kind == OpKind::kGather || kind == OpKind::kScatter;
      const bool is_all_to_all = kind == OpKind::kAllToAll;
      EXPECT_EQ(IsDirect(group, call, {}),
                is_all_to_all || kind == OpKind::kAllGather || (is_rooted && size == 2))
          << Name(kind) << " of " << size;
      group.quick_slots = true;
      EXPECT_EQ(IsDirect(group, call, {}), is_all_to_all && size > 2) << Name(kind);
    }
  }
}

TEST(ScheduleTest, AMissingFlushOrMessageIsNoticed) {
  const Call reduction{OpKind::kAllReduce, DType::kInt64, ReduceOp::kSum, 0, 1000};
  EXPECT_EQ(FailuresWithout(StepKind::kDivide, reduction, {1, 2}), 0);
  EXPECT_GT(FailuresWithout(StepKind::kReceive, reduction, {1, 2}), 0);  // S5
  EXPECT_GT(FailuresWithout(StepKind::kSend, reduction, {1, 2}), 0);     // S7
  // A node that only sends could be far ahead.
  const Call gather{OpKind::kGather, DType::kInt64, ReduceOp::kSum, 0, 1000};
  EXPECT_EQ(FailuresWithout(StepKind::kDivide, gather, {1, 2}), 0);
  EXPECT_GT(FailuresWithout(StepKind::kFlush, gather, {1, 2}), 0);  // S6
}

}  // namespace
}  // namespace muster
