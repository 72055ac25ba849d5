// Messages with ranks that no connection leads to, and those that do not come.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/worker_sdk/transport/messages_world.h"
#include "worker_sdk/transport/messages.h"

namespace muster {
namespace {

TEST(Messages, AnAgentThatRefusesIsToldOfAtOnce) {
  World world({1, 1});
  world.refusal = Status(StatusCode::kUnavailable, "rank 1 has died");
  World::Rank me(&world, 0);
  uint8_t byte = 0;
  EXPECT_EQ(me.messages.Receive(1, 0, DType::kUInt8, &byte, 1)->status.message(),
            "rank 1 has died");
  me.messages.Close();
}

// Whether the two have talked before makes no difference.
TEST(Messages, OneThatHasClosedIsNotCalledDeadThoughTheTwoHaveNeverTalked) {
  World world({3});
  World::Rank me(&world, 0);
  world.refusal = Status(StatusCode::kUnavailable, "it is gone", 1);
  world.Mark(1, LineEnd::kClosed);
  world.Mark(2, LineEnd::kDied);
  uint8_t byte = 0;
  const TransferPtr closed = me.messages.Receive(1, 0, DType::kUInt8, &byte, 1);
  EXPECT_EQ(closed->status.ToString(), "FAILED_PRECONDITION: rank 1 has closed its communicator");
  EXPECT_EQ(closed->status.peer(), 1);
  EXPECT_EQ(me.messages.Receive(2, 0, DType::kUInt8, &byte, 1)->status.ToString(),
            "UNAVAILABLE: it is gone");
  me.messages.Close();
}

// However short: nobody sleeps beyond the end.
TEST(Messages, ATimeoutIsNoLongerThanItWasToBe) {
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{2}, {1, 1}}) {
    World world(sizes);
    World::Rank me(&world, 0);
    uint8_t byte = 0;
    std::chrono::nanoseconds best = kLong;
    for (int i = 0; i < 20; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const Status late =
          me.messages.ReceiveNow(1, 5, DType::kUInt8, &byte, 1, std::chrono::milliseconds(2));
      EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
      best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
    }
    EXPECT_GE(best, std::chrono::milliseconds(2));
    EXPECT_LT(best, std::chrono::milliseconds(20));
    me.messages.Close();
  }
}

// The others hear of it, and the rank itself begins nothing more.
TEST(Messages, WhoFailsEndsItsConversations) {
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{2}, {1, 1}}) {
    World world(sizes);
    World::Rank me(&world, 0);
    World::Rank other(&world, 1);
    uint8_t byte = 0;
    const TransferPtr theirs = other.messages.Receive(0, 2, DType::kUInt8, &byte, 1);
    const TransferPtr mine = me.messages.Receive(1, 2, DType::kUInt8, &byte, 1);
    const TransferPtr any = me.messages.Receive(Messages::kAny, 3, DType::kUInt8, &byte, 1);
    me.messages.Fail({StatusCode::kResourceExhausted, "out of memory"});
    EXPECT_EQ(mine->status.message(), "out of memory");
    EXPECT_EQ(any->status.message(), "out of memory");
    for (const uint32_t from : {1U, Messages::kAny}) {
      EXPECT_EQ(me.messages.ReceiveNow(from, 4, DType::kUInt8, &byte, 1, kLong).message(),
                "out of memory");
    }
    (void)me.messages.Progress();
    EXPECT_EQ(other.messages.Wait(0, theirs, kLong).code(), StatusCode::kUnavailable);
    me.messages.Close();
    other.messages.Close();
  }
}

}  // namespace
}  // namespace muster
