// Calls whose parts differ from rank to rank, among ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "proto/base/rng.h"
#include "tests/worker_sdk/executor/cluster.h"
#include "worker_sdk/executor/executor.h"

namespace muster {
namespace {

using testing::HasSubstr;

class PartsTest : public testing::TestWithParam<std::vector<uint32_t>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, PartsTest, testing::ValuesIn(shapes));

Call WithParts(OpKind kind, const std::vector<uint64_t>& parts, uint32_t root = 0,
               ReduceOp op = ReduceOp::kSum) {
  Call call = Of(kind, *std::max_element(parts.begin(), parts.end()), root, op);
  call.parts = parts.data();
  return call;
}

uint64_t SumOf(const std::vector<uint64_t>& parts, size_t number) {
  return std::accumulate(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(number),
                         uint64_t{0});
}

// Zeros, small ones and large ones.
std::vector<uint64_t> AnyParts(uint64_t number, SplitMix64& random) {
  std::vector<uint64_t> out(number);
  for (uint64_t& part : out) {
    const uint64_t most[] = {1, 5, 1000, 100000};
    part = random.Next() % most[random.Next() % 4];
  }
  return out;
}

// What `from` has for `to` at `index`: small, that sums of them are exact in bfloat16, too.
float Value(uint64_t from, uint64_t to, uint64_t index) {
  return static_cast<float>((from * 5 + to * 3 + index) % 8);
}
std::vector<float> Values(uint64_t from, uint64_t to, uint64_t count) {
  std::vector<float> out(count);
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = Value(from, to, i);
  }
  return out;
}
void Append(std::vector<float>& out, const std::vector<float>& part) {
  out.insert(out.end(), part.begin(), part.end());
}

TEST_P(PartsTest, GatheredAndScattered) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    SplitMix64 random(3);  // the same on every rank
    for (int run = 0; run < 8; ++run) {
      const std::vector<uint64_t> parts =
          run == 0 ? std::vector<uint64_t>(size, 0) : AnyParts(size, random);
      const uint32_t root = static_cast<uint32_t>(random.Next() % size);
      const std::vector<float> mine = Values(rank, 0, parts[rank]);
      std::vector<float> want;
      for (uint32_t i = 0; i < size; ++i) {
        Append(want, Values(i, 0, parts[i]));
      }
      std::vector<float> all(want.size(), -1);
      ASSERT_EQ(Text(executor.Run(WithParts(OpKind::kAllGatherV, parts), mine.data(), all.data())),
                "OK");
      ASSERT_EQ(all, want);
      std::vector<float> in_place(want.size(), -1);
      float* const own = in_place.data() + SumOf(parts, rank);
      std::copy(mine.begin(), mine.end(), own);
      ASSERT_EQ(Text(executor.Run(WithParts(OpKind::kAllGatherV, parts), own, in_place.data())),
                "OK");
      ASSERT_EQ(in_place, want);

      std::vector<float> at_root(rank == root ? want.size() : 0, -1);
      ASSERT_EQ(
          Text(executor.Run(WithParts(OpKind::kGatherV, parts, root), mine.data(), at_root.data())),
          "OK");
      ASSERT_EQ(at_root, rank == root ? want : std::vector<float>());
      std::vector<float> back(mine.size(), -1);
      ASSERT_EQ(Text(executor.Run(WithParts(OpKind::kScatterV, parts, root), at_root.data(),
                                  back.data())),
                "OK");
      ASSERT_EQ(back, mine);
      float* const place = rank == root ? at_root.data() + SumOf(parts, rank) : back.data();
      ASSERT_EQ(
          Text(executor.Run(WithParts(OpKind::kScatterV, parts, root), at_root.data(), place)),
          "OK");
      ASSERT_TRUE(std::equal(mine.begin(), mine.end(), place));
    }
  });
}

TEST_P(PartsTest, ReducedAndScattered) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    SplitMix64 random(5);
    for (const Wire wire : {Wire::kFull, Wire::kBFloat16}) {
      for (int run = 0; run < 4; ++run) {
        const std::vector<uint64_t> parts = AnyParts(size, random);
        Call call = WithParts(OpKind::kReduceScatterV, parts, 0,
                              run % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAvg);
        call.wire = wire;
        const uint64_t begin = SumOf(parts, rank);
        const std::vector<float> in = Values(rank, 0, SumOf(parts, size));
        std::vector<float> out(parts[rank], -1);
        ASSERT_EQ(Text(executor.Run(call, in.data(), out.data())), "OK");
        std::vector<float> in_place = in;
        float* const own = in_place.data() + begin;
        ASSERT_EQ(Text(executor.Run(call, in_place.data(), own)), "OK");
        ASSERT_TRUE(std::equal(out.begin(), out.end(), own));
        for (uint64_t i = 0; i < out.size(); ++i) {
          float sum = 0;
          for (uint32_t r = 0; r < size; ++r) {
            sum += Value(r, 0, begin + i);
          }
          ASSERT_FLOAT_EQ(out[i], call.op == ReduceOp::kAvg ? sum / static_cast<float>(size) : sum);
        }
      }
    }
  });
}

TEST_P(PartsTest, AllToAll) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    SplitMix64 random(7);
    for (int run = 0; run < 6; ++run) {
      const std::vector<uint64_t> pairs = AnyParts(uint64_t{size} * size, random);
      std::vector<uint64_t> expected;
      std::vector<float> in;
      std::vector<float> want;
      for (uint32_t i = 0; i < size; ++i) {
        expected.push_back(pairs[size_t{i} * size + rank]);
        Append(in, Values(rank, i, pairs[size_t{rank} * size + i]));
        Append(want, Values(i, rank, expected[i]));
      }
      Call call = Of(OpKind::kAllToAllV, 0);
      call.parts = pairs.data() + size_t{rank} * size;
      std::vector<float> out(want.size(), -1);
      const uint64_t bytes = executor.counters().bytes;
      ASSERT_EQ(Text(executor.RunAllToAllV(call, expected.data(), in.data(), out.data())), "OK");
      ASSERT_EQ(out, want);
      EXPECT_EQ(executor.counters().bytes - bytes,
                in.size() * sizeof(float) + size * sizeof(uint64_t));
    }
    EXPECT_EQ(executor.counters().calls, 12u);
  });
}

// What others would read is overwritten, or there is nothing to read: then it takes many turns of
// slots, at each of which other near bytes lie where the others have told nothing.
TEST(DirectPartsTest, WhatCannotBeReadDirectlyIsNotReadLaterEither) {
  constexpr uint64_t kCount = 400'001;
  for (const uint32_t size : {2u, 3u}) {
    Cluster cluster({size});
    const auto reader = cluster.MeetDirectly();
    RunRanks(size, [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      executor.SetDirect(reader.get(), /*quick_slots=*/false);
      std::vector<float> in;
      std::vector<float> want;
      for (uint32_t i = 0; i < size; ++i) {
        Append(in, Values(rank, i, kCount));
        Append(want, Values(i, rank, kCount));
      }
      const std::vector<uint64_t> counts(size, kCount);
      std::vector<float> gathered(kCount * size);
      for (int barriers = 0; barriers < 4; ++barriers) {
        const auto tell_addresses = [&] {
          ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllGather, kCount), in.data(), gathered.data())),
                    "OK");
          for (int i = 0; i < barriers; ++i) {
            ASSERT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), "OK");
          }
        };
        tell_addresses();
        std::vector<float> out = in;
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, kCount), out.data(), out.data())), "OK");
        ASSERT_EQ(out, want) << "in place, after " << barriers << " barriers";
        tell_addresses();
        const bool sends = rank != 0;
        const std::vector<uint64_t> mine(size, sends ? kCount : 0);
        std::vector<uint64_t> expected = counts;
        expected[0] = 0;
        Call call = Of(OpKind::kAllToAllV, 0);
        call.parts = mine.data();
        std::vector<float> got(kCount * (size - 1), -1);
        ASSERT_EQ(Text(executor.RunAllToAllV(call, expected.data(), sends ? in.data() : nullptr,
                                             got.data())),
                  "OK");
        ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin() + kCount))
            << "one sends nothing, after " << barriers << " barriers";
      }
    });
  }
}

// A bit that changes is found, and so is nothing else.
TEST_P(PartsTest, AResultThatDiffersIsFound) {
  Cluster cluster(GetParam());
  const uint32_t size = cluster.size();
  std::vector<Status> ended(size);
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    std::vector<uint64_t> parts(size, 3);
    parts[0] = 1001;
    const Call call = WithParts(OpKind::kAllGatherV, parts);
    const std::vector<float> mine = Values(rank, 0, parts[rank]);
    std::vector<float> all(SumOf(parts, size));
    ASSERT_EQ(Text(executor.Run(call, mine.data(), all.data())), "OK");
    ASSERT_EQ(Text(executor.Check(call, all.data())), "OK");
    all.back() += rank == size - 1 ? 1.0F : 0.0F;
    ASSERT_EQ(Text(executor.Run({OpKind::kBarrier}, nullptr, nullptr)), "OK");
    ended[rank] = executor.Check(call, all.data());
  });
  for (const Status& status : ended) {
    EXPECT_EQ(status.code(), size == 1 ? StatusCode::kOk : StatusCode::kInternal);
  }
}

// Both calls are named, on one node and on two.
TEST(PartsTest, CountsThatDifferAreNamed) {
  struct Case {
    OpKind kind;
    std::vector<uint64_t> of_rank_2;
    std::string sum;
  };
  const std::vector<uint64_t> parts = {64, 0, 2000, 5};
  for (const Case& one : std::vector<Case>{{OpKind::kAllGatherV, {64, 0, 2000, 6}, "2070"},
                                           {OpKind::kAllGatherV, {64, 5, 2000, 0}, "2069"},
                                           {OpKind::kReduceScatterV, {64, 0, 2005, 0}, "2069"},
                                           {OpKind::kScatterV, {64, 0, 0, 0}, "64"},
                                           {OpKind::kGatherV, {69, 0, 2000, 0}, "2069"}}) {
    for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{{4}, {2, 2}}) {
      Cluster cluster(sizes);
      std::vector<Status> ended(4);
      RunRanks(4, [&](uint32_t rank) {
        Executor executor = cluster.Open(rank);
        const Call call = WithParts(one.kind, rank == 2 ? one.of_rank_2 : parts, 1);
        std::vector<float> in(4000);
        std::vector<float> out(4000);
        ended[rank] = executor.Run(call, in.data(), out.data());
        if (ended[rank].ok()) {  // who waits for nobody hears of it next time
          ended[rank] = executor.Run({OpKind::kBarrier}, nullptr, nullptr);
        }
      });
      for (const Status& status : ended) {
        EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
        EXPECT_THAT(status.message(), HasSubstr("rank 2 calls " + std::string(Name(one.kind)) +
                                                "(" + one.sum + " x float32 in parts "));
        EXPECT_THAT(status.message(),
                    HasSubstr(std::string(Name(one.kind)) + "(2069 x float32 in parts "));
      }
    }
  }
}

// Rank 3 expects one more of rank 1 than that one sends; nobody else could know.
TEST(PartsTest, WhatIsSentAndWhatIsExpectedAreCompared) {
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{4}, {2, 2}, {1, 1, 1, 1}}) {
    Cluster cluster(sizes);
    std::vector<Status> ended(4);
    RunRanks(4, [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      const std::vector<uint64_t> row(4, 5);
      std::vector<uint64_t> expected(4, 5);
      expected[1] += rank == 3 ? 1 : 0;
      Call call = Of(OpKind::kAllToAllV, 0);
      call.parts = row.data();
      std::vector<float> in(20);
      std::vector<float> out(21);
      ended[rank] = executor.RunAllToAllV(call, expected.data(), in.data(), out.data());
    });
    for (const Status& status : ended) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("all_to_all_v (call "));
      EXPECT_THAT(status.message(),
                  HasSubstr(": rank 1 sends 5 elements to rank 3, which expects 6"));
    }
  }
}

TEST(PartsTest, AnotherCallThanAllToAllIsNamed) {
  for (const std::vector<uint32_t>& sizes : std::vector<std::vector<uint32_t>>{{2}, {1, 1}}) {
    Cluster cluster(sizes);
    std::vector<Status> ended(2);
    RunRanks(2, [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      const std::vector<uint64_t> row(2, 1);
      Call call = Of(OpKind::kAllToAllV, 0);
      call.parts = row.data();
      std::vector<float> in(2);
      std::vector<float> out(2);
      ended[rank] = rank == 0 ? executor.RunAllToAllV(call, row.data(), in.data(), out.data())
                              : executor.Run(Of(OpKind::kAllReduce, 2), in.data(), out.data());
    });
    for (const Status& status : ended) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("rank 0 calls all_to_all_v(float32)"));
      EXPECT_THAT(status.message(), HasSubstr("rank 1 calls all_reduce(2 x float32, sum)"));
    }
  }
}

}  // namespace
}  // namespace muster
