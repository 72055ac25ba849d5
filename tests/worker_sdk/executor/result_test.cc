// What ranks say of their results: narrow numbers between nodes, and comparing checksums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "proto/base/rng.h"
#include "tests/worker_sdk/executor/cluster.h"
#include "worker_sdk/executor/executor.h"

namespace muster {
namespace {

using testing::HasSubstr;

class ResultTest : public testing::TestWithParam<std::vector<uint32_t>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ResultTest, testing::ValuesIn(shapes));

// Of any size and sign, with a NaN and an infinity at the end.
std::vector<float> AnyNumbers(uint32_t rank, uint64_t count) {
  SplitMix64 random(rank + 1);
  std::vector<float> out(count);
  for (float& value : out) {
    const auto mantissa = static_cast<float>(random.Next() % 2000001) - 1000000;
    value = std::ldexp(mantissa, static_cast<int>(random.Next() % 40) - 20);
  }
  if (count > 1 && rank == 0) {
    out[count - 1] = std::numeric_limits<float>::quiet_NaN();
    out[count - 2] = -std::numeric_limits<float>::infinity();
  }
  return out;
}

// How far from the exact value of a sum whose summands' sizes add up to `size` a result may be:
// what communicator.h says of narrow numbers, and float32's own roundings.
double OffMax(const Layout& layout, OpKind kind, double size) {
  const uint32_t nodes = layout.nodes();
  const int roundings = nodes == 1                                     ? 0
                        : nodes == 2 || kind == OpKind::kReduceScatter ? 1
                        : nodes <= 8                                   ? 2
                                     : 1 + static_cast<int>(std::bit_width(nodes - 1));
  const double full = (layout.world() + 1) * std::ldexp(1, -24);
  return (std::pow(1 + std::ldexp(1, -8), roundings) * (1 + full) - 1) * size;
}

using Inputs = std::vector<std::vector<float>>;  // of each rank

// `got` against the sums, or averages, of all inputs from `begin` on.
void ExpectNarrowSums(const Layout& layout, const Call& call, const Inputs& all,
                      const std::vector<float>& got, uint64_t begin) {
  for (uint64_t i = 0; i < got.size(); ++i) {
    double sum = 0;
    double size = 0;
    for (const std::vector<float>& one : all) {
      sum += static_cast<double>(one[begin + i]);
      size += std::abs(static_cast<double>(one[begin + i]));
    }
    const double scale = call.op == ReduceOp::kAvg ? layout.world() : 1;
    const auto value = static_cast<double>(got[i]);
    if (std::isfinite(sum)) {
      ASSERT_LE(std::abs(value - sum / scale), OffMax(layout, call.kind, size) / scale) << i;
    } else {
      ASSERT_TRUE(std::isnan(sum) ? std::isnan(value) : value == sum) << i << ": " << value;
    }
  }
}

TEST_P(ResultTest, NarrowNumbersAreWithinTheirBound) {
  const uint32_t size = std::accumulate(GetParam().begin(), GetParam().end(), 0U);
  for (const uint64_t count : kCounts) {
    Inputs in;
    for (uint32_t rank = 0; rank < size; ++rank) {
      in.push_back(AnyNumbers(rank, count));
    }
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      Cluster cluster(GetParam(), GetParam().size() == 3);
      Call all_reduce = Of(OpKind::kAllReduce, count, 0, op);
      Call reduce = Of(OpKind::kReduce, count, size - 1, op);
      Call scatter = Of(OpKind::kReduceScatter, count / size, 0, op);
      for (Call* call : {&all_reduce, &reduce, &scatter}) {
        call->wire = Wire::kBFloat16;
      }
      std::vector<std::vector<float>> out(size);
      std::vector<std::vector<float>> part(size);
      std::vector<float> root(count);
      RunRanks(size, [&](uint32_t rank) {
        Executor executor = cluster.Open(rank);
        part[rank].resize(count / size);
        for (int run = 0; run < 2; ++run) {  // the second finds the memory as the first left it
          out[rank] = in[rank];
          ASSERT_EQ(Text(executor.Run(all_reduce, out[rank].data(), out[rank].data())), "OK");
          ASSERT_EQ(Text(executor.Run(reduce, in[rank].data(), root.data())), "OK");
          ASSERT_EQ(Text(executor.Run(scatter, in[rank].data(), part[rank].data())), "OK");
        }
      });
      ExpectNarrowSums(cluster.layout, all_reduce, in, out[0], 0);
      ExpectNarrowSums(cluster.layout, reduce, in, root, 0);
      for (uint32_t rank = 0; rank < size; ++rank) {
        ASSERT_TRUE(std::equal(out[rank].begin(), out[rank].end(), out[0].begin(), SameBits))
            << rank;
        ExpectNarrowSums(cluster.layout, scatter, in, part[rank], rank * (count / size));
      }
    }
  }
}

// Else it would not be half the bytes.
TEST(WireTest, WhatTravelsIsNarrow) {
  Cluster cluster({1, 1});
  RunRanks(2, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    for (const uint64_t count : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{100000}}) {
      std::vector<float> data(count, rank == 0 ? 1.001F : 1.0F);
      Call call = Of(OpKind::kAllReduce, count);
      call.wire = Wire::kBFloat16;
      ASSERT_EQ(Text(executor.Run(call, data.data(), data.data())), "OK");
      // Up to 8 bytes travel in full.
      ASSERT_EQ(data, std::vector<float>(count, count <= 2 ? 2.001F : 2.0F));
    }
  });
}

TEST(WireTest, RanksThatDisagreeOnTheWireAreBothNamed) {
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{2}, {1, 1}}) {
    Cluster cluster(sizes);
    std::vector<Status> ended(2);
    RunRanks(2, [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      std::vector<float> data(64);
      Call call = Of(OpKind::kAllReduce, 64);
      call.wire = rank == 0 ? Wire::kFull : Wire::kBFloat16;
      ended[rank] = executor.Run(call, data.data(), data.data());
    });
    for (const Status& status : ended) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("rank 0 calls all_reduce(64 x float32, sum)"));
      EXPECT_THAT(status.message(),
                  HasSubstr("rank 1 calls all_reduce(64 x float32, sum, wire bf16)"));
    }
  }
}

// Once with the results as they are, then with one bit of one rank's that has changed since.
TEST_P(ResultTest, AResultThatDiffersIsFound) {
  constexpr uint64_t kCount = 1001;
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kAllGather}) {
    Cluster cluster(GetParam(), GetParam().size() == 3);
    const uint32_t size = cluster.size();
    std::vector<Status> ended(size);
    RunRanks(size, [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      const Call call = Of(kind, kCount);
      const std::vector<float> in = Input(kind == OpKind::kBroadcast ? 0 : rank, kCount);
      std::vector<float> out(kind == OpKind::kAllGather ? kCount * size : kCount);
      std::copy(in.begin(), in.end(), out.begin());
      const void* const from = kind == OpKind::kBroadcast ? out.data() : in.data();
      ASSERT_EQ(Text(executor.Run(call, from, out.data())), "OK");
      ASSERT_EQ(Text(executor.Check(call, out.data())), "OK");
      ASSERT_EQ(Text(executor.Run(call, from, out.data())), "OK");
      if (rank == size - 1) {
        out.back() = std::nextafter(out.back(), 0.0F);
      }
      ended[rank] = executor.Check(call, out.data());
      EXPECT_EQ(Text(executor.Run(call, from, out.data())), ended[rank].ToString());
    });
    for (const Status& status : ended) {
      if (size == 1) {
        EXPECT_EQ(Text(status), "OK");
        continue;
      }
      EXPECT_EQ(status.code(), StatusCode::kInternal) << status.ToString();
      EXPECT_EQ(status.message(), ended[0].message());
      EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(size - 1) + " has crc"));
      EXPECT_THAT(status.message(),
                  HasSubstr("the result of " + std::string(Name(kind)) + "(1001 x float32"));
      EXPECT_THAT(status.message(), HasSubstr("(call 3)"));
    }
  }
}

}  // namespace
}  // namespace muster
