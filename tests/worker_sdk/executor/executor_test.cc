#include "worker_sdk/executor/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "tests/worker_sdk/ranks.h"

namespace muster {
namespace {

using testing::HasSubstr;

struct Node {
  explicit Node(uint32_t size) : geometry(ArenaFor(size)), memory(MakeArenaMemory(geometry)) {}
  Executor Open(uint32_t place) const { return Executor(MapArena(memory, geometry, place)); }
  const ArenaGeometry geometry;
  const UniqueFd memory;
};

Call Of(OpKind kind, uint64_t count, uint32_t root = 0, ReduceOp op = ReduceOp::kSum,
        DType dtype = DType::kFloat32) {
  return {kind, dtype, op, root, count};
}

std::vector<float> Input(uint32_t place, uint64_t count) {
  std::vector<float> out(count);
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(place + 1) + static_cast<float>(i % 1000) / 8;
  }
  return out;
}

std::string Text(const Status& status) { return status.ToString(); }

// Sizes around those where the way of doing it changes.
constexpr uint64_t kCounts[] = {0, 1, 2, 3, 16, 1000, 5000, 40000, 200001};

TEST(ExecutorTest, AllReduceInPlaceAndOutOfPlace) {
  for (const uint32_t size : {1u, 2u, 3u, 4u, 7u}) {
    const Node node(size);
    RunRanks(size, [&](uint32_t place) {
      Executor executor = node.Open(place);
      for (const uint64_t count : kCounts) {
        const std::vector<float> in = Input(place, count);
        std::vector<float> want(count, 0);
        for (uint64_t i = 0; i < count; ++i) {
          want[i] = 1 + static_cast<float>(i % 1000) / 8;
          for (uint32_t r = 1; r < size; ++r) {
            want[i] += static_cast<float>(r + 1) + static_cast<float>(i % 1000) / 8;
          }
        }
        std::vector<float> out(count, -1);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count), in.data(), out.data())), "OK");
        ASSERT_EQ(out, want) << size << " ranks, " << count;
        std::vector<float> both = in;
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count), both.data(), both.data())),
                  "OK");
        ASSERT_EQ(both, want) << size << " ranks, " << count << ", in place";
      }
    });
  }
}

TEST(ExecutorTest, AverageDividesOnce) {
  const Node node(4);
  RunRanks(4, [&](uint32_t place) {
    Executor executor = node.Open(place);
    for (const uint64_t count : {uint64_t{1}, uint64_t{100000}}) {
      std::vector<double> data(count, place);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count, 0, ReduceOp::kAvg, DType::kFloat64),
                                  data.data(), data.data())),
                "OK");
      ASSERT_EQ(data, std::vector<double>(count, 1.5));
    }
  });
}

TEST(ExecutorTest, RootedCalls) {
  constexpr uint32_t kSize = 3;
  const Node node(kSize);
  RunRanks(kSize, [&](uint32_t place) {
    Executor executor = node.Open(place);
    for (const uint64_t count : kCounts) {
      for (uint32_t root = 0; root < kSize; ++root) {
        const std::vector<float> mine = Input(place, count);
        std::vector<float> data = place == root ? mine : std::vector<float>(count, -1);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kBroadcast, count, root), data.data(), data.data())),
                  "OK");
        ASSERT_EQ(data, Input(root, count));

        std::vector<float> all(place == root ? count * kSize : 0);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kGather, count, root), mine.data(), all.data())),
                  "OK");
        for (uint32_t i = 0; i < kSize && place == root; ++i) {
          const std::vector<float> part(all.begin() + static_cast<ptrdiff_t>(i * count),
                                        all.begin() + static_cast<ptrdiff_t>((i + 1) * count));
          ASSERT_EQ(part, Input(i, count));
        }
        std::vector<float> back(count);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kScatter, count, root), all.data(), back.data())),
                  "OK");
        ASSERT_EQ(back, mine);

        std::vector<float> sum(place == root ? count : 0);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kReduce, count, root), mine.data(), sum.data())),
                  "OK");
        std::vector<float> want = mine;
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count), want.data(), want.data())),
                  "OK");
        if (place == root) {
          ASSERT_EQ(sum, want);
        }
      }
    }
  });
}

TEST(ExecutorTest, PartsForEveryone) {
  constexpr uint32_t kSize = 4;
  const Node node(kSize);
  RunRanks(kSize, [&](uint32_t place) {
    Executor executor = node.Open(place);
    for (const uint64_t count : kCounts) {
      std::vector<float> all(count * kSize);
      const std::vector<float> mine = Input(place, count);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllGather, count), mine.data(), all.data())), "OK");
      std::vector<float> want;
      for (uint32_t i = 0; i < kSize; ++i) {
        const std::vector<float> part = Input(i, count);
        want.insert(want.end(), part.begin(), part.end());
      }
      ASSERT_EQ(all, want);
      // Its own place in the output is input too.
      std::vector<float> in_place(count * kSize);
      std::copy(mine.begin(), mine.end(), in_place.begin() + static_cast<ptrdiff_t>(place * count));
      float* const own = in_place.data() + place * count;
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllGather, count), own, in_place.data())), "OK");
      ASSERT_EQ(in_place, want);

      // Twice there is back again.
      std::vector<float> there(count * kSize);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, count), mine.empty() ? nullptr : all.data(),
                                  there.data())),
                "OK");
      std::vector<float> back(count * kSize);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, count), there.data(), back.data())), "OK");
      ASSERT_EQ(back, all);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, count), back.data(), back.data())), "OK");
      ASSERT_EQ(back, there) << "in place";

      std::vector<float> part(count);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kReduceScatter, count), all.data(), part.data())),
                "OK");
      for (uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(part[i], 4 * mine[i]);
      }
    }
  });
}

// A second run gives the same bits, and every rank has them, whoever comes late.
TEST(ExecutorTest, EqualBits) {
  constexpr uint32_t kSize = 5;
  constexpr uint64_t kCount = 30011;
  const Node node(kSize);
  std::vector<std::vector<float>> seen(size_t{kSize} * 3);
  RunRanks(kSize, [&](uint32_t place) {
    Executor executor = node.Open(place);
    for (uint32_t run = 0; run < 3; ++run) {
      std::vector<float> data(kCount);
      for (uint64_t i = 0; i < kCount; ++i) {
        data[i] = 1.0f / static_cast<float>(i * kSize + place + 1);
      }
      for (uint32_t i = 0; i < (place + run) % kSize; ++i) {
        std::this_thread::yield();
      }
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, kCount), data.data(), data.data())), "OK");
      seen[size_t{run} * kSize + place] = std::move(data);
    }
  });
  for (const std::vector<float>& one : seen) {
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(one[i]), std::bit_cast<uint32_t>(seen[0][i]));
    }
  }
}

TEST(ExecutorTest, RanksThatDisagreeAreBothNamed) {
  const Node node(2);
  Status ended[2];
  RunRanks(2, [&](uint32_t place) {
    Executor executor = node.Open(place);
    ASSERT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), "OK");
    std::vector<float> data(64);
    const Call call = place == 0 ? Of(OpKind::kAllReduce, 64) : Of(OpKind::kBroadcast, 32, 1);
    ended[place] = executor.Run(call, data.data(), data.data());
    if (ended[place].ok()) {  // the root of a broadcast waits for nobody: it hears of it next time
      ended[place] = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
    }
    EXPECT_EQ(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr).ToString(),
              ended[place].ToString());
  });
  for (const Status& status : ended) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
  }
  EXPECT_THAT(ended[0].message(), HasSubstr("rank 0 calls all_reduce(64 x float32, sum)"));
  EXPECT_THAT(ended[0].message(), HasSubstr("rank 1 calls broadcast(32 x float32, root 1)"));
}

TEST(ExecutorTest, TimeoutNamesWhoIsMissing) {
  const Node node(3);
  Executor executor = node.Open(0);
  Executor other = node.Open(2);
  executor.SetTimeout(std::chrono::milliseconds(1));
  const Status status = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(),
              HasSubstr("barrier (call 1) on rank 0: rank 1 did not come within 1 ms"));
  // The others learn of it: nobody waits for a rank that has given up.
  EXPECT_EQ(other.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr).code(),
            StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace muster
