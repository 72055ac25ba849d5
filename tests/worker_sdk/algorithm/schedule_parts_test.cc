// Schedules of calls whose parts differ from rank to rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "proto/base/rng.h"
#include "tests/worker_sdk/algorithm/schedule_check.h"
#include "tests/worker_sdk/algorithm/schedule_world.h"
#include "tests/worker_sdk/layouts.h"
#include "worker_sdk/algorithm/schedule.h"

namespace muster {
namespace {

// Sizes of parts, of which `most` is the largest: what a program could come up with.
enum class Parts { kNone, kOneGiant, kRandom, kSteps, kEqual };
constexpr Parts kAllParts[] = {Parts::kNone, Parts::kOneGiant, Parts::kRandom, Parts::kSteps,
                               Parts::kEqual};
std::vector<uint64_t> MakeParts(Parts how, uint64_t number, uint64_t most, SplitMix64& random) {
  std::vector<uint64_t> out(number, how == Parts::kEqual ? most : 0);
  for (uint64_t i = 0; i < number && how == Parts::kRandom; ++i) {
    out[i] = random.Next() % 3 == 0 ? 0 : random.Next() % (most + 1);
  }
  for (uint64_t i = 0; i < number && how == Parts::kSteps; ++i) {
    out[i] = most * i / number;
  }
  if (how == Parts::kOneGiant) {
    out[random.Next() % number] = most;
  }
  return out;
}
void CheckParts(const Layout& layout, uint64_t slot_bytes, OpKind kind, uint64_t most,
                SplitMix64& random) {
  const uint64_t world = layout.world();
  for (const Parts how : kAllParts) {
    const std::vector<uint64_t> parts =
        MakeParts(how, kind == OpKind::kAllToAllV ? world * world : world, most, random);
    Call call{kind, DType::kInt64, random.Next() % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAvg};
    call.root = static_cast<uint32_t>(random.Next() % world);
    call.count = *std::max_element(parts.begin(), parts.end());
    call.parts = parts.data();
    SCOPED_TRACE("parts " + std::to_string(static_cast<int>(how)));
    CheckOne(layout, slot_bytes, 1, call, random.Next());
    RunOnce(layout, slot_bytes, 1, call, kind == OpKind::kAllGatherV && call.root % 2 == 0,
            random.Next(), true);
    if (testing::Test::HasFailure()) {
      return;
    }
  }
}

constexpr OpKind kKindsOfParts[] = {OpKind::kAllGatherV, OpKind::kGatherV, OpKind::kScatterV,
                                    OpKind::kReduceScatterV, OpKind::kAllToAllV};
class PartsTest : public testing::TestWithParam<OpKind> {};

TEST_P(PartsTest, EverySizeOfNode) {
  SplitMix64 random(17);
  for (uint32_t size = 1; size <= 64; ++size) {
    const uint64_t slot = size <= 8 ? 512 : 4096;
    const bool large = size <= 17 || size % 16 == 1;
    CheckParts(Layout::OneNode(size), slot, GetParam(), large ? slot / kWord / size * 2 + 3 : 2,
               random);
    if (HasFailure()) {
      return;
    }
  }
}

TEST_P(PartsTest, EveryWorldOnSeveralNodes) {
  SplitMix64 random(19);
  for (uint32_t world = 2; world <= 64; ++world) {
    const auto nodes = static_cast<uint32_t>(2 + random.Next() % (world - 1));
    std::vector<uint32_t> sizes(nodes, 1);
    for (uint32_t i = nodes; i < world; ++i) {
      ++sizes[random.Next() % nodes];
    }
    const uint64_t slot = std::max<uint64_t>(512, uint64_t{world} * 64);
    const bool large = world <= 17 || world % 16 == 1;
    CheckParts(Deal(sizes, world % 2 == 1), slot, GetParam(),
               large ? slot / kWord / world * 2 + 3 : 2, random);
    if (HasFailure()) {
      return;
    }
  }
}

TEST_P(PartsTest, EverySizeAroundChunks) {
  constexpr uint64_t kSlot = 4096;
  SplitMix64 random(23);
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{1}, {3}, {1, 1}, {1, 3}, {2, 3, 2}, {1, 1, 1, 1}}) {
    for (const uint64_t most : {uint64_t{1}, uint64_t{64}, uint64_t{65}, kSlot / kWord - 1,
                                kSlot / kWord, kSlot / kWord + 1, 5 * kSlot / kWord + 17}) {
      CheckParts(Deal(sizes, sizes.size() == 3), kSlot, GetParam(), most, random);
      if (HasFailure()) {
        return;
      }
    }
  }
}

// A pair reads parts of 8 KiB straight from where they are.
TEST_P(PartsTest, EverySizeAroundDirectReads) {
  SplitMix64 random(29);
  for (const uint32_t size : {2u, 3u, 6u}) {
    for (const uint64_t most : {uint64_t{1023}, uint64_t{1024}, uint64_t{3001}}) {
      CheckParts(Layout::OneNode(size), 4096, GetParam(), most, random);
      if (HasFailure()) {
        return;
      }
    }
  }
}

// Of one rank after the other.
std::vector<Step> StepsOfAll(const Layout& layout, const Call& call) {
  std::vector<Step> out;
  for (uint32_t rank = 0; rank < layout.world(); ++rank) {
    const Layout::Seat seat = layout.SeatOf(rank);
    Progress progress;
    std::vector<Step> part;
    while (!progress.done) {
      MakeSchedule({&layout, seat.node, seat.place, 4096, 4096, 1}, call, progress, part);
      out.insert(out.end(), part.begin(), part.end());
    }
  }
  return out;
}

// The same steps as if nobody had given sizes: message for message.
TEST_P(PartsTest, EqualPartsAreThoseOfTheEqualForm) {
  const std::vector<OpKind> equal = {OpKind::kAllGather, OpKind::kGather, OpKind::kScatter,
                                     OpKind::kReduceScatter, OpKind::kAllToAll};
  const auto kind = std::find(std::begin(kKindsOfParts), std::end(kKindsOfParts), GetParam());
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{1}, {5}, {1, 1}, {2, 3, 1}, {1, 1, 1, 1}}) {
    const Layout layout = Deal(sizes, sizes.size() == 3);
    for (const uint64_t count : {uint64_t{0}, uint64_t{7}, uint64_t{3000}}) {
      Call call{equal[static_cast<size_t>(kind - std::begin(kKindsOfParts))], DType::kInt64};
      call.root = layout.world() - 1;
      call.count = count;
      const std::vector<Step> want = StepsOfAll(layout, call);
      const std::vector<uint64_t> parts(size_t{layout.world()} * layout.world(), count);
      call.kind = GetParam();
      call.parts = parts.data();
      EXPECT_TRUE(StepsOfAll(layout, call) == want) << sizes.size() << " nodes, " << count;
    }
  }
}

// What is not there does not travel: nothing is sent but the one part with data, and once a message
// for each that has none.
TEST_P(PartsTest, NothingElseTravels) {
  const Layout layout = Deal({2, 1, 2}, false);
  const uint64_t world = layout.world();
  const bool gathers = GetParam() == OpKind::kAllGatherV || GetParam() == OpKind::kGatherV;
  struct Sent {
    uint64_t bytes = 0;
    uint64_t empty = 0;
  };
  const auto send = [&](uint64_t count) {
    std::vector<uint64_t> parts(world * world, 0);
    parts[gathers ? 0 : 2] = count;  // from rank 0, or to rank 2 of another node
    Call call{GetParam(), DType::kInt64};
    call.root = gathers ? 2 : 0;
    call.count = count;
    call.parts = parts.data();
    Sent sent;
    for (const Step& step : StepsOfAll(layout, call)) {
      sent.bytes += step.kind == StepKind::kSend ? step.bytes : 0;
      sent.empty += step.kind == StepKind::kSend && step.bytes == 0 ? 1 : 0;
    }
    return sent;
  };
  // Both other nodes get it of an all-gather, and send their sums of a reduction.
  const bool twice = GetParam() == OpKind::kAllGatherV || GetParam() == OpKind::kReduceScatterV;
  const uint64_t messages = twice ? 2 : 1;
  constexpr uint64_t kCount = 10000;
  EXPECT_EQ(send(kCount).bytes, messages * kCount * kWord);
  EXPECT_EQ(send(kCount).empty, send(0).empty - messages);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PartsTest, testing::ValuesIn(kKindsOfParts),
                         [](const testing::TestParamInfo<OpKind>& i) {
                           return std::string(Name(i.param));
                         });

}  // namespace
}  // namespace muster
