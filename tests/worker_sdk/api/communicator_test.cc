// What a communicator says about its arguments, in a world of one; tests/integration/sdk_test.py
// has larger ones.
#include "muster/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace muster {
namespace {

class CommunicatorTest : public testing::Test {
 protected:
  CommunicatorTest() {
    unsetenv("MUSTER_RANK");
    StatusOr<Communicator> made = Communicator::FromEnvironment();
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    comm_.emplace(*std::move(made));
  }
  static void ExpectInvalid(const Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), why);
  }
  std::optional<Communicator> comm_;
  float data_[12] = {1, 2, 3};
};

TEST(DTypeOf, IsThatOfTheNumbers) {
  const std::pair<DType, DType> all[] = {
      {DTypeOf<int8_t>::kValue, DType::kInt8},
      {DTypeOf<uint8_t>::kValue, DType::kUInt8},
      {DTypeOf<int16_t>::kValue, DType::kInt16},
      {DTypeOf<uint16_t>::kValue, DType::kUInt16},
      {DTypeOf<int32_t>::kValue, DType::kInt32},
      {DTypeOf<uint32_t>::kValue, DType::kUInt32},
      {DTypeOf<int64_t>::kValue, DType::kInt64},
      {DTypeOf<uint64_t>::kValue, DType::kUInt64},
      {DTypeOf<long>::kValue, DType::kInt64},
      {DTypeOf<long long>::kValue, DType::kInt64},
      {DTypeOf<size_t>::kValue, DType::kUInt64},
      {DTypeOf<unsigned long long>::kValue, DType::kUInt64},
      {DTypeOf<float>::kValue, DType::kFloat32},
      {DTypeOf<double>::kValue, DType::kFloat64},
      {DTypeOf<signed char>::kValue, DType::kInt8},
  };
  for (const auto& [got, wanted] : all) {
    EXPECT_EQ(got, wanted);
  }
}

TEST_F(CommunicatorTest, AloneEverythingIsItsOwn) {
  EXPECT_EQ(comm_->rank(), 0);
  EXPECT_EQ(comm_->size(), 1);
  float out[3] = {};
  EXPECT_TRUE(comm_->AllReduce(data_, out, 3, DType::kFloat32, ReduceOp::kAvg).ok());
  EXPECT_EQ(out[2], 3);
  EXPECT_TRUE(comm_->Broadcast(data_, 3).ok());
  EXPECT_TRUE(comm_->AllToAll(data_, out, 3, DType::kFloat32).ok());
  EXPECT_TRUE(comm_->Barrier().ok());
}

TEST_F(CommunicatorTest, AloneThereIsOnePart) {
  constexpr DType kFloats = DType::kFloat32;
  const int64_t three = 3;
  const auto came = [](const Status& status, float(&out)[3]) {
    const bool all = out[0] == 1 && out[1] == 2 && out[2] == 3;
    std::fill(std::begin(out), std::end(out), 0.0F);
    return status.ok() && all;
  };
  float out[3] = {};
  EXPECT_TRUE(came(comm_->AllGatherV(data_, out, &three, kFloats), out));
  EXPECT_TRUE(came(comm_->GatherV(data_, out, &three, kFloats, 0), out));
  EXPECT_TRUE(came(comm_->ScatterV(data_, out, &three, kFloats, 0), out));
  EXPECT_TRUE(came(comm_->ReduceScatterV(data_, out, &three, kFloats, ReduceOp::kAvg), out));
  EXPECT_TRUE(came(comm_->AllToAllV(data_, &three, out, &three, kFloats), out));
  EXPECT_TRUE(came(comm_->AllGatherVAsync(data_, out, &three, kFloats).Wait(), out));
  EXPECT_TRUE(came(comm_->GatherVAsync(data_, out, &three, kFloats, 0).Wait(), out));
  EXPECT_TRUE(came(comm_->ScatterVAsync(data_, out, &three, kFloats, 0).Wait(), out));
  EXPECT_TRUE(
      came(comm_->ReduceScatterVAsync(data_, out, &three, kFloats, ReduceOp::kSum).Wait(), out));
  EXPECT_TRUE(came(comm_->AllToAllVAsync(data_, &three, out, &three, kFloats).Wait(), out));
  const int64_t two = 2;
  EXPECT_EQ(comm_->AllToAllV(data_, &three, out, &two, kFloats).message(),
            "all_to_all_v (call 16) on rank 0: rank 0 sends 3 elements to rank 0, which expects 2");
}

TEST_F(CommunicatorTest, WhatIsStartedEnds) {
  float out[3] = {};
  Work reduced = comm_->AllReduceAsync(data_, out, 3, DType::kFloat32, ReduceOp::kSum);
  Work copied = comm_->AllGatherAsync(out, data_ + 4, 3, DType::kFloat32);
  EXPECT_TRUE(comm_->Barrier().ok());  // behind them
  EXPECT_TRUE(reduced.Test());
  EXPECT_TRUE(copied.Wait().ok());
  EXPECT_EQ(data_[6], 3);
  Work late = comm_->BarrierAsync();
  comm_.reset();
  EXPECT_TRUE(late.Test());
  EXPECT_TRUE(late.Wait().ok());
}

TEST_F(CommunicatorTest, CallsOfTwoThreadsAreNotMixedUp) {
  const uint64_t before = comm_->counters().calls;
  std::atomic<uint64_t> good{0};
  const auto many = [&](bool blocks) {
    float in[3] = {1, 2, 3};
    float out[3] = {};
    for (int i = 0; i < 3000; ++i) {
      out[2] = 0;
      const Status status =
          blocks ? comm_->AllReduce(in, out, 3, DType::kFloat32, ReduceOp::kSum)
                 : comm_->AllReduceAsync(in, out, 3, DType::kFloat32, ReduceOp::kSum).Wait();
      if (status.ok()) {
        EXPECT_EQ(out[2], 3);
        ++good;
      } else {
        EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
        EXPECT_EQ(status.message(),
                  "another thread is in a call of this communicator: make one at a time");
      }
    }
  };
  std::thread blocks([&] { many(true); });
  std::thread starts([&] { many(false); });
  blocks.join();
  starts.join();
  EXPECT_EQ(comm_->counters().calls - before, good);
}

TEST_F(CommunicatorTest, NoTimeAtAllIsNoLimit) {
  comm_->SetTimeout(std::chrono::seconds(-1));
  float got = 0;
  std::thread receives([&] { EXPECT_TRUE(comm_->Recv(&got, 1, DType::kFloat32, 0).ok()); });
  EXPECT_TRUE(comm_->Send(data_ + 1, 1, DType::kFloat32, 0).ok());
  receives.join();
  EXPECT_EQ(got, 2);
}

TEST_F(CommunicatorTest, WhatCannotBeStartedHasEnded) {
  Work work = comm_->AllReduceAsync(nullptr, data_, 1, DType::kInt8, ReduceOp::kSum);
  EXPECT_TRUE(work.Test());
  ExpectInvalid(work.Wait(), "all_reduce: in: a null pointer");
  EXPECT_TRUE(comm_->Barrier().ok());
}

TEST_F(CommunicatorTest, MessagesToOneself) {
  float out[3] = {};
  Work received = comm_->RecvAsync(out, 3, DType::kFloat32, 0, 5);
  EXPECT_FALSE(received.Test());
  EXPECT_TRUE(comm_->Send(data_, 3, DType::kFloat32, 0, 5).ok());
  EXPECT_TRUE(received.Wait().ok());
  EXPECT_EQ(out[2], 3);
  EXPECT_EQ(received.source(), 0);
  Work from_any = comm_->RecvAsync(out, 3, DType::kFloat32, kAnyRank, 5);
  EXPECT_EQ(from_any.source(), kAnyRank);
  EXPECT_TRUE(comm_->Send(data_, 3, DType::kFloat32, 0, 5).ok());
  EXPECT_TRUE(from_any.Wait().ok());
  EXPECT_EQ(from_any.source(), 0);
  ExpectInvalid(comm_->Send(data_, 3, DType::kFloat32, 1), "send: to: want 0..0, got 1");
  ExpectInvalid(comm_->Send(data_, 3, DType::kFloat32, kAnyRank), "send: to: want 0..0, got -1");
  ExpectInvalid(comm_->Recv(out, 3, DType::kFloat32, -2),
                "recv: from: want 0..0, or -1 for any rank, got -2");
  ExpectInvalid(comm_->Recv(data_, 3, DType::kFloat32, 0, -1), "recv: tag: want 0 or more, got -1");
  ExpectInvalid(comm_->SendAsync(nullptr, 3, DType::kInt8, 0).Wait(), "send: data: a null pointer");
  Work never = comm_->RecvAsync(out, 3, DType::kFloat32, 0, 6);
  comm_.reset();
  EXPECT_EQ(never.Wait().code(), StatusCode::kFailedPrecondition);
}

TEST_F(CommunicatorTest, AGroupOfOneIsAWorldOfItsOwn) {
  StatusOr<std::optional<Communicator>> none = comm_->Split(-1);
  ASSERT_TRUE(none.ok()) << none.status().ToString();
  EXPECT_FALSE(none->has_value());
  StatusOr<std::optional<Communicator>> group = comm_->Split(INT64_MAX, INT64_MIN);
  ASSERT_TRUE(group.ok()) << group.status().ToString();
  ASSERT_TRUE(group->has_value());
  StatusOr<std::optional<Communicator>> again = (*group)->Split(0);
  ASSERT_TRUE(again.ok() && again->has_value());
  comm_.reset();
  for (Communicator* one : {&**group, &**again}) {
    EXPECT_EQ(one->rank(), 0);
    EXPECT_EQ(one->size(), 1);
    EXPECT_EQ(one->local_size(), 1);
    EXPECT_TRUE(one->AllReduce(data_, 3).ok());
    EXPECT_TRUE(one->Barrier().ok());
  }
}

TEST_F(CommunicatorTest, CountsWhatSucceeds) {
  const Counters before = comm_->counters();
  EXPECT_TRUE(comm_->AllReduce(data_, 3).ok());
  EXPECT_TRUE(comm_->Barrier().ok());
  EXPECT_FALSE(comm_->AllReduce(data_, -1).ok());
  const Counters after = comm_->counters();
  EXPECT_EQ(after.calls - before.calls, 2U);
  EXPECT_EQ(after.bytes - before.bytes, 12U);
  EXPECT_EQ(comm_->WaitedFor(-1).count(), 0);
  EXPECT_EQ(comm_->WaitedFor(1).count(), 0);
}

TEST_F(CommunicatorTest, NumbersOutOfRange) {
  ExpectInvalid(
      comm_->AllReduce(data_, data_, 4, DType::kFloat16, ReduceOp::kBitAnd),
      "all_reduce: reduction band is for integers, got float16: use sum, avg, prod, min or max");
  ExpectInvalid(comm_->AllGather(data_, data_, -5, DType::kInt8),
                "all_gather: count: want 0 or more, got -5");
  ExpectInvalid(comm_->Gather(data_, data_, int64_t{1} << 61, DType::kFloat64, 0),
                "gather: count: want at most 1152921504606846975 elements of float64, got "
                "2305843009213693952");
  ExpectInvalid(comm_->Broadcast(data_, 4, DType::kInt8, 1), "broadcast: root: want 0..0, got 1");
  ExpectInvalid(comm_->Scatter(data_, data_, 4, DType::kInt8, -1),
                "scatter: root: want 0..0, got -1");
}

TEST_F(CommunicatorTest, Buffers) {
  const char* odd = reinterpret_cast<const char*>(data_) + 1;
  ExpectInvalid(comm_->AllReduce(nullptr, data_, 1, DType::kInt8, ReduceOp::kSum),
                "all_reduce: in: a null pointer");
  ExpectInvalid(comm_->AllReduce(data_, nullptr, 1, DType::kInt8, ReduceOp::kSum),
                "all_reduce: out: a null pointer");
  ExpectInvalid(comm_->Gather(data_, nullptr, 1, DType::kInt8, 0), "gather: out: a null pointer");
  ExpectInvalid(comm_->Scatter(nullptr, data_, 1, DType::kInt8, 0), "scatter: in: a null pointer");
  ExpectInvalid(comm_->AllGather(odd, data_, 1, DType::kFloat32),
                "all_gather: in: want an address that is a multiple of 4 for float32, got " +
                    std::to_string(reinterpret_cast<uintptr_t>(odd)));
  EXPECT_TRUE(comm_->Broadcast(nullptr, 0, DType::kInt8, 0).ok());
  EXPECT_TRUE(comm_->Barrier().ok()) << "a wrong argument loses nothing";
}

}  // namespace
}  // namespace muster
