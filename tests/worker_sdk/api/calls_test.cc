// What one rank of several can say about the arguments of its calls.
#include "worker_sdk/api/calls.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace muster {
namespace {

constexpr DType kType = DType::kFloat64;
using Counts = std::vector<int64_t>;

class CallsTest : public testing::Test {
 protected:
  static void ExpectInvalid(const Collective& call, const std::string& why) {
    EXPECT_EQ(call.wrong.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(call.wrong.message(), why);
  }
  const Calls calls_{1, 3, Wire::kBFloat16};  // rank 1 of 3
  double data_[12] = {};
  double* const in_ = data_;
  double* const out_ = data_ + 6;
};

TEST_F(CallsTest, PartsBecomeACall) {
  Counts counts = {2, 0, 3};
  const Collective gather = calls_.AllGatherV(nullptr, out_, counts.data(), kType);
  counts = {};  // it has been copied
  EXPECT_TRUE(gather.wrong.ok()) << gather.wrong.ToString();
  EXPECT_EQ(gather.call.kind, OpKind::kAllGatherV);
  EXPECT_EQ(gather.call.count, 3U);
  EXPECT_EQ(gather.parts, std::vector<uint64_t>({2, 0, 3}));
  EXPECT_EQ(gather.out, out_);

  const Collective scatter = calls_.ScatterV(in_, out_, Counts{1, 2, 3}.data(), kType, 1);
  EXPECT_TRUE(scatter.wrong.ok()) << scatter.wrong.ToString();
  EXPECT_EQ(scatter.in, in_);
  EXPECT_EQ(scatter.out, out_);
  EXPECT_EQ(scatter.call.root, 1U);

  const Collective sum =
      calls_.ReduceScatterV(in_, out_, Counts{1, 2, 3}.data(), DType::kFloat32, ReduceOp::kAvg);
  EXPECT_TRUE(sum.wrong.ok()) << sum.wrong.ToString();
  EXPECT_EQ(sum.call.wire, Wire::kBFloat16);
  EXPECT_EQ(sum.call.op, ReduceOp::kAvg);

  const Collective all =
      calls_.AllToAllV(in_, Counts{1, 2, 3}.data(), out_, Counts{0, 2, 0}.data(), kType);
  EXPECT_TRUE(all.wrong.ok()) << all.wrong.ToString();
  EXPECT_EQ(all.parts, std::vector<uint64_t>({1, 2, 3}));
  EXPECT_EQ(all.expected, std::vector<uint64_t>({0, 2, 0}));
}

TEST_F(CallsTest, BuffersOfOtherRanksMayBeNull) {
  const Counts counts = {2, 0, 3};
  EXPECT_TRUE(calls_.GatherV(nullptr, nullptr, counts.data(), kType, 0).wrong.ok());
  EXPECT_TRUE(calls_.ScatterV(nullptr, nullptr, counts.data(), kType, 2).wrong.ok());
  EXPECT_TRUE(calls_.ReduceScatterV(in_, nullptr, counts.data(), kType, ReduceOp::kSum).wrong.ok());
  ExpectInvalid(calls_.AllGatherV(nullptr, nullptr, counts.data(), kType),
                "all_gather_v: out: a null pointer");
  ExpectInvalid(calls_.GatherV(nullptr, nullptr, counts.data(), kType, 1),
                "gather_v: out: a null pointer");
  ExpectInvalid(calls_.GatherV(nullptr, out_, Counts{0, 1, 0}.data(), kType, 0),
                "gather_v: in: a null pointer");
  ExpectInvalid(calls_.ScatterV(nullptr, nullptr, counts.data(), kType, 1),
                "scatter_v: in: a null pointer");
  ExpectInvalid(calls_.ReduceScatterV(nullptr, out_, counts.data(), kType, ReduceOp::kSum),
                "reduce_scatter_v: in: a null pointer");
  ExpectInvalid(calls_.AllToAllV(nullptr, counts.data(), out_, counts.data(), kType),
                "all_to_all_v: in: a null pointer");
  ExpectInvalid(calls_.AllToAllV(in_, counts.data(), nullptr, counts.data(), kType),
                "all_to_all_v: out: a null pointer");
}

TEST_F(CallsTest, CountsOutOfRange) {
  ExpectInvalid(calls_.AllGatherV(in_, out_, nullptr, kType),
                "all_gather_v: counts: a null pointer");
  ExpectInvalid(calls_.GatherV(in_, out_, Counts{1, 1, -2}.data(), kType, 0),
                "gather_v: counts[2]: want 0 or more, got -2");
  ExpectInvalid(calls_.ScatterV(in_, out_, Counts{1, 1152921504606846975, 0}.data(), kType, 0),
                "scatter_v: counts[1]: want at most 1152921504606846975 elements of float64 with "
                "those before it, got 1152921504606846975");
  ExpectInvalid(calls_.AllToAllV(in_, nullptr, out_, Counts{0, 0, 0}.data(), kType),
                "all_to_all_v: send_counts: a null pointer");
  ExpectInvalid(calls_.AllToAllV(in_, Counts{0, 0, 0}.data(), out_, Counts{0, -1, 0}.data(), kType),
                "all_to_all_v: recv_counts[1]: want 0 or more, got -1");
  const Counts most = {0, 0, 1152921504606846975};
  EXPECT_TRUE(calls_.GatherV(in_, out_, most.data(), kType, 0).wrong.ok());
}

TEST_F(CallsTest, WhatIsNoTypeAndNoOperation) {
  const auto no_type = static_cast<DType>(12);
  ExpectInvalid(calls_.AllReduce(in_, out_, 2, no_type, ReduceOp::kSum),
                "all_reduce: dtype: want one of DType, 0..11, got 12");
  ExpectInvalid(calls_.AllGatherV(in_, out_, Counts{1, 1, 1}.data(), no_type),
                "all_gather_v: dtype: want one of DType, 0..11, got 12");
  ExpectInvalid(
      calls_.AllToAllV(in_, Counts{1, 1, 1}.data(), out_, Counts{1, 1, 1}.data(), no_type),
      "all_to_all_v: dtype: want one of DType, 0..11, got 12");
  EXPECT_EQ(calls_.Send(in_, 1, no_type, 0, 0).wrong.message(),
            "send: dtype: want one of DType, 0..11, got 12");
  const auto no_op = static_cast<ReduceOp>(77);
  ExpectInvalid(calls_.AllReduce(in_, out_, 2, kType, no_op),
                "all_reduce: op: want one of ReduceOp, 0..7, got 77");
  ExpectInvalid(calls_.ReduceScatterV(in_, out_, Counts{1, 1, 1}.data(), kType, no_op),
                "reduce_scatter_v: op: want one of ReduceOp, 0..7, got 77");
}

TEST_F(CallsTest, OtherArguments) {
  const Counts counts = {1, 1, 1};
  ExpectInvalid(calls_.ScatterV(in_, out_, counts.data(), kType, 3),
                "scatter_v: root: want 0..2, got 3");
  ExpectInvalid(calls_.ReduceScatterV(in_, out_, counts.data(), kType, ReduceOp::kBitOr),
                "reduce_scatter_v: reduction bor is for integers, got float64: use sum, avg, prod, "
                "min or max");
  const auto* const odd = reinterpret_cast<const char*>(in_) + 1;
  ExpectInvalid(calls_.GatherV(odd, out_, counts.data(), kType, 0),
                "gather_v: in: want an address that is a multiple of 8 for float64, got " +
                    std::to_string(reinterpret_cast<uintptr_t>(odd)));
}

// What C++ and C say: the same address, else no common element; a part also in its own place.
TEST_F(CallsTest, BuffersThatOverlap) {
  double* const all = data_ + 4;
  const auto reduce = [&](int at) {
    return calls_.AllReduce(all, all + at, 2, kType, ReduceOp::kSum);
  };
  for (const int at : {0, 2, -2, 4}) {
    EXPECT_TRUE(reduce(at).wrong.ok()) << at;
  }
  const std::string wanted = ": in and out overlap: want the same address, or no common element";
  const std::string gathers =
      ": in and out overlap: want in at element 2 of out, its own place, or no common element";
  const std::string deals =
      ": in and out overlap: want out at element 2 of in, its own place, or no common element";
  for (const int at : {1, -1}) {
    ExpectInvalid(reduce(at), "all_reduce" + wanted);
    ExpectInvalid(calls_.Reduce(all, all + at, 2, kType, ReduceOp::kSum, 1), "reduce" + wanted);
    EXPECT_TRUE(calls_.Reduce(all, all + at, 2, kType, ReduceOp::kSum, 0).wrong.ok());
  }
  for (const int at : {0, 2, 6, -2}) {  // the same, its own place, behind and before the whole
    EXPECT_TRUE(calls_.AllGather(all + at, all, 2, kType).wrong.ok()) << at;
    EXPECT_TRUE(calls_.Scatter(all, all + at, 2, kType, 1).wrong.ok()) << at;
  }
  for (const int at : {1, 3, 4, 5, -1}) {
    ExpectInvalid(calls_.AllGather(all + at, all, 2, kType), "all_gather" + gathers);
    ExpectInvalid(calls_.Gather(all + at, all, 2, kType, 1), "gather" + gathers);
    ExpectInvalid(calls_.Scatter(all, all + at, 2, kType, 1), "scatter" + deals);
    ExpectInvalid(calls_.ReduceScatter(all, all + at, 2, kType, ReduceOp::kSum),
                  "reduce_scatter" + deals);
    ExpectInvalid(calls_.AllToAll(all, all + at, 2, kType), "all_to_all" + wanted);
  }
  ExpectInvalid(calls_.AllToAll(all, all + 2, 2, kType), "all_to_all" + wanted);
  EXPECT_TRUE(calls_.AllToAll(all, all, 2, kType).wrong.ok());
  EXPECT_TRUE(calls_.Broadcast(all, 2, kType, 0).wrong.ok());
}

// Rank 1's part begins behind that of rank 0.
TEST_F(CallsTest, APartMayLieAtItsOwnPlace) {
  const Counts counts = {2, 3, 1};
  double* const all = data_;
  for (const int64_t at : {2, 6, -3}) {  // its own place, behind the others, before them
    double* const from = at < 0 ? data_ + 3 : all;
    double* const own = from + at;
    EXPECT_TRUE(calls_.AllGatherV(own, from, counts.data(), kType).wrong.ok()) << at;
    EXPECT_TRUE(calls_.GatherV(own, from, counts.data(), kType, 1).wrong.ok()) << at;
    EXPECT_TRUE(calls_.ScatterV(from, own, counts.data(), kType, 1).wrong.ok()) << at;
    EXPECT_TRUE(calls_.ReduceScatterV(from, own, counts.data(), kType, ReduceOp::kSum).wrong.ok())
        << at;
  }
  for (const int64_t at : {0, 1, 3, 5}) {
    ExpectInvalid(
        calls_.AllGatherV(all + at, all, counts.data(), kType),
        "all_gather_v: in and out overlap: want in at element 2 of out, its own place, or "
        "no common element");
    ExpectInvalid(calls_.ReduceScatterV(all, all + at, counts.data(), kType, ReduceOp::kSum),
                  "reduce_scatter_v: in and out overlap: want out at element 2 of in, its own "
                  "place, or no common element");
    EXPECT_TRUE(calls_.GatherV(all + at, all, counts.data(), kType, 0).wrong.ok());
    ExpectInvalid(calls_.AllToAllV(all + at, counts.data(), all, counts.data(), kType),
                  "all_to_all_v: in and out overlap: want no common element");
  }
  EXPECT_TRUE(calls_.AllGatherV(all + 1, all, Counts{2, 0, 2}.data(), kType).wrong.ok())
      << "no elements";
  EXPECT_TRUE(calls_.AllToAllV(all, counts.data(), all + 6, counts.data(), kType).wrong.ok());
}

}  // namespace
}  // namespace muster
