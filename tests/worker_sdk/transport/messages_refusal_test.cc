// Messages with ranks that no connection leads to.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace muster
