// Every schedule of every size of node, run in memory, one step of a random rank at a time.
// Checked: the rules S1..S4 of schedule.h (by what a rank has waited for, not by what happens to be
// true), and the result.
#include "worker_sdk/algorithm/schedule.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/base/rng.h"

namespace muster {
namespace {

constexpr uint64_t kWord = 8;  // all of the calls here are about int64

// Words of the arena: what is there, who wrote it, and for which phase.
struct Cell {
  int64_t value = 0;
  uint32_t writer = 0;
  uint64_t phase = 0;  // 0: nothing yet
};

struct World {
  World(uint32_t size, uint64_t slot_bytes, const Call& c) : call(c), ranks(size) {
    for (uint32_t i = 0; i < size; ++i) {
      ranks[i].known.assign(size, 0);
      MakeSchedule({i, size, slot_bytes}, c, ranks[i].steps);
    }
  }
  struct Rank {
    std::vector<Step> steps;
    size_t at = 0;
    uint64_t phase = 0;
    std::vector<uint64_t> known;  // phase of each rank that this one has waited for
    std::vector<int64_t> in;
    std::vector<int64_t> out;
  };
  const Call call;
  std::vector<Rank> ranks;
  std::map<std::pair<uint64_t, uint64_t>, Cell> cells;  // {area, word}
};

uint64_t AreaOf(const Ref& ref, uint64_t phase) {
  return (uint64_t{ref.place} * 8 + static_cast<uint64_t>(ref.space)) * 2 + (phase & 1);
}

int64_t Read(World& world, uint32_t me, const Ref& ref, uint64_t word) {
  World::Rank& rank = world.ranks[me];
  const uint64_t at = ref.offset / kWord + word;
  if (ref.space == Space::kIn || ref.space == Space::kOut) {
    return (ref.space == Space::kIn ? rank.in : rank.out).at(at);
  }
  const Cell& cell = world.cells[{AreaOf(ref, rank.phase), at}];
  EXPECT_EQ(cell.phase, rank.phase) << "S2: rank " << me << " reads what is not of its phase";
  EXPECT_GE(rank.known[cell.writer], rank.phase) << "S4: rank " << me << " has not waited";
  return cell.value;
}

void Write(World& world, uint32_t me, const Ref& ref, uint64_t word, int64_t value) {
  World::Rank& rank = world.ranks[me];
  const uint64_t at = ref.offset / kWord + word;
  if (ref.space == Space::kOut) {
    rank.out.at(at) = value;
    return;
  }
  ASSERT_NE(ref.space, Space::kIn);
  for (uint32_t i = 0; i < world.ranks.size(); ++i) {
    EXPECT_GE(rank.known[i], rank.phase) << "S3: rank " << me << " has not waited for " << i;
  }
  world.cells[{AreaOf(ref, rank.phase + 1), at}] = {value, me, rank.phase + 1};
}

// Of what this rank has written just now.
void Divide(World& world, uint32_t me, const Ref& ref, uint64_t word) {
  World::Rank& rank = world.ranks[me];
  const uint64_t at = ref.offset / kWord + word;
  int64_t& value = ref.space == Space::kOut ? rank.out.at(at)
                                            : world.cells[{AreaOf(ref, rank.phase + 1), at}].value;
  value /= static_cast<int64_t>(world.ranks.size());
}

// False: it has to wait.
bool RunOne(World& world, uint32_t me) {
  World::Rank& rank = world.ranks[me];
  const Step& step = rank.steps[rank.at];
  const auto size = static_cast<uint32_t>(world.ranks.size());
  for (uint32_t i = 0; i < size; ++i) {
    const bool waits =
        step.kind == StepKind::kWaitAll || (step.kind == StepKind::kWaitOne && step.src.place == i);
    if (waits && world.ranks[i].phase < rank.phase) {
      return false;
    }
    if (waits) {
      rank.known[i] = rank.phase;
    }
  }
  for (uint64_t word = 0; word < step.bytes / kWord; ++word) {
    switch (step.kind) {
      case StepKind::kCopy:
        Write(world, me, step.dst, word, Read(world, me, step.src, word));
        break;
      case StepKind::kReduce: {
        int64_t sum = 0;
        for (uint32_t i = 0; i < size; ++i) {
          const Ref from = i == me ? step.src : Ref{step.from, i, step.offset};
          sum += Read(world, me, from, word);
        }
        Write(world, me, step.dst, word, sum);
        break;
      }
      case StepKind::kDivide:
        Divide(world, me, step.dst, word);
        break;
      default:
        break;
    }
  }
  if (step.kind == StepKind::kPublish) {
    rank.known[me] = ++rank.phase;
  }
  ++rank.at;
  return true;
}

void RunAll(World& world, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<uint32_t> left;
  for (uint32_t i = 0; i < world.ranks.size(); ++i) {
    left.push_back(i);
  }
  std::erase_if(left, [&](uint32_t i) { return world.ranks[i].steps.empty(); });
  while (!left.empty()) {
    const size_t first = random.Next() % left.size();
    bool moved = false;
    for (size_t i = 0; i < left.size() && !moved; ++i) {
      const size_t pick = (first + i) % left.size();
      World::Rank& rank = world.ranks[left[pick]];
      // Some steps in a row, else neighbours would move in lockstep.
      for (uint64_t steps = random.Next() % 8 + 1; steps > 0 && rank.at < rank.steps.size();
           --steps) {
        if (!RunOne(world, left[pick])) {
          break;
        }
        moved = true;
      }
      if (rank.at == rank.steps.size()) {
        left.erase(left.begin() + static_cast<ptrdiff_t>(pick));
        moved = true;
      }
    }
    ASSERT_TRUE(moved) << "every rank waits for another";
  }
}

int64_t Value(uint32_t rank, uint64_t index) {
  return static_cast<int64_t>(uint64_t{rank} * 1000003 + index * 7 + 1);
}

// What `rank` must have at `index` of its output; the second version of each collective.
int64_t Want(const Call& call, uint32_t size, uint32_t rank, uint64_t index) {
  const uint64_t part = call.count == 0 ? 0 : index / call.count;
  const uint64_t inside = call.count == 0 ? 0 : index % call.count;
  const auto sum = [&](uint64_t at) {
    int64_t out = 0;
    for (uint32_t i = 0; i < size; ++i) {
      out += Value(i, at);
    }
    return call.op == ReduceOp::kAvg && size != 0 ? out / size : out;
  };
  switch (call.kind) {
    case OpKind::kAllReduce:
    case OpKind::kReduce:
      return sum(index);
    case OpKind::kReduceScatter:
      return sum(rank * call.count + index);
    case OpKind::kBroadcast:
      return Value(call.root, index);
    case OpKind::kAllGather:
    case OpKind::kGather:
      return Value(static_cast<uint32_t>(part), inside);
    case OpKind::kScatter:
      return Value(call.root, rank * call.count + index);
    case OpKind::kAllToAll:
      return Value(static_cast<uint32_t>(part), rank * call.count + inside);
    case OpKind::kBarrier:
      return 0;
  }
  return 0;
}

struct Sizes {
  uint64_t in = 1;  // parts of `count` elements
  uint64_t out = 1;
};
Sizes SizesOf(const Call& call, uint32_t size, uint32_t rank) {
  switch (call.kind) {
    case OpKind::kBarrier:
      return {0, 0};
    case OpKind::kReduce:
      return {1, rank == call.root ? 1u : 0u};
    case OpKind::kAllGather:
      return {1, size};
    case OpKind::kGather:
      return {1, rank == call.root ? size : 0u};
    case OpKind::kScatter:
      return {rank == call.root ? size : 0u, 1};
    case OpKind::kReduceScatter:
      return {size, 1};
    case OpKind::kAllToAll:
      return {size, size};
    default:
      return {1, 1};
  }
}

void CheckOne(uint32_t size, uint64_t slot_bytes, const Call& call, uint64_t seed) {
  if (call.kind == OpKind::kBarrier && call.count != 0) {
    return;  // it has no data
  }
  SCOPED_TRACE(std::string(Name(call.kind)) + " of " + std::to_string(call.count) + " among " +
               std::to_string(size) + ", root " + std::to_string(call.root));
  World world(size, slot_bytes, call);
  for (uint32_t i = 0; i < size; ++i) {
    const Sizes sizes = SizesOf(call, size, i);
    World::Rank& rank = world.ranks[i];
    rank.out.assign(sizes.out * call.count, -1);
    rank.in.resize(sizes.in * call.count);
    for (uint64_t k = 0; k < rank.in.size(); ++k) {
      rank.in[k] = Value(i, k);
    }
    if (call.kind == OpKind::kBroadcast && i == call.root) {
      rank.out = rank.in;  // one buffer
    }
  }
  RunAll(world, seed);
  for (uint32_t i = 0; i < size; ++i) {
    const World::Rank& rank = world.ranks[i];
    EXPECT_EQ(rank.phase, world.ranks[0].phase) << "S1: rank " << i;
    for (uint64_t k = 0; k < rank.out.size(); ++k) {
      ASSERT_EQ(rank.out[k], Want(call, size, i, k)) << "rank " << i << ", element " << k;
    }
  }
}

constexpr OpKind kKinds[] = {OpKind::kBarrier,   OpKind::kAllReduce,     OpKind::kReduce,
                             OpKind::kBroadcast, OpKind::kAllGather,     OpKind::kGather,
                             OpKind::kScatter,   OpKind::kReduceScatter, OpKind::kAllToAll};

class ScheduleTest : public testing::TestWithParam<OpKind> {};

TEST_P(ScheduleTest, EverySizeOfNode) {
  for (uint32_t size = 1; size <= 64; ++size) {
    const uint64_t slot = size <= 8 ? 512 : 4096;
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{13}, slot / kWord + 3}) {
      if (size > 16 && count > 13 && size % 8 != 1) {
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

INSTANTIATE_TEST_SUITE_P(Kinds, ScheduleTest, testing::ValuesIn(kKinds),
                         [](const testing::TestParamInfo<OpKind>& i) {
                           return std::string(Name(i.param));
                         });

// Failures that a schedule without steps of `kind` causes; 0 for a sound schedule.
int FailuresWithout(StepKind kind, const Call& call) {
  testing::TestPartResultArray failures;
  testing::ScopedFakeTestPartResultReporter reporter(
      testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    World world(3, 512, call);
    for (World::Rank& rank : world.ranks) {
      std::erase_if(rank.steps, [kind](const Step& step) { return step.kind == kind; });
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

}  // namespace
}  // namespace muster
