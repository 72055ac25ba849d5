#include "worker_sdk/transport/mover.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/worker_sdk/ranks.h"
#include "tests/worker_sdk/transport/messages_world.h"

namespace muster {
namespace {

// As a mover is never destroyed, what it calls is not either.
struct Pushes {
  std::atomic<int> count{0};
  std::atomic<int> left{0};  // after which nothing is to be moved
  Mover mover{[this] {
    ++count;
    const bool more = left > 0 && --left > 0;
    return Mover::Pushed{more, more};
  }};
  void AwaitEnd() const {
    while (left > 0) {
      std::this_thread::yield();
    }
  }
};

TEST(Mover, PushesUntilNothingIsLeftEachTimeItIsAsked) {
  Pushes& pushes = *new Pushes;
  for (int i = 0; i < 3; ++i) {
    pushes.left = 5;
    pushes.mover.Ask();
    pushes.mover.Ask();
    pushes.AwaitEnd();
  }
  EXPECT_GE(pushes.count, 15);
}

TEST(Mover, NoQuestionIsMissedWhileItPushes) {
  Pushes& pushes = *new Pushes;
  std::array<std::thread, 4> askers;
  for (std::thread& asker : askers) {
    asker = std::thread([&pushes] {
      for (int k = 0; k < 50; ++k) {
        ++pushes.left;
        pushes.mover.Ask();
        pushes.AwaitEnd();
      }
    });
  }
  for (std::thread& asker : askers) {
    asker.join();
  }
}

class SenderTest : public testing::TestWithParam<Where> {};
INSTANTIATE_TEST_SUITE_P(Where, SenderTest,
                         testing::Values(Where{"one_node", {2}}, Where{"two_nodes", {1, 1}}),
                         NameOf);

// None can leave before the receiver asks, and not all at once: there is no room for them.
TEST_P(SenderTest, WhatIsSentComesThoughItsSenderDoesNothingMore) {
  constexpr uint32_t kMessages = 1000;
  World world(GetParam().sizes);
  std::promise<void> all_sent;
  std::promise<void> all_received;
  RunRanks(2, [&](uint32_t rank) {
    World::Rank me(&world, rank);
    const std::vector<uint8_t> data(8000, 4);
    if (rank == 0) {
      for (uint32_t i = 0; i < kMessages; ++i) {
        EXPECT_TRUE(me.messages.Send(1, 0, DType::kUInt8, data.data(), data.size())->ended);
      }
      all_sent.set_value();
      all_received.get_future().wait();
    } else {
      std::vector<uint8_t> received(data.size());
      all_sent.get_future().wait();
      const auto until = std::chrono::steady_clock::now() + kLong;
      for (uint32_t i = 0; i < kMessages; ++i) {
        const TransferPtr in =
            me.messages.Receive(0, 0, DType::kUInt8, received.data(), received.size());
        // A wait would move what other communicators of this process send: rank 0's, here.
        while (!me.messages.Test(in) && std::chrono::steady_clock::now() < until) {
          std::this_thread::yield();
        }
        ASSERT_TRUE(in->ended);
      }
      EXPECT_EQ(received, data);
      all_received.set_value();
    }
    me.messages.Close();
  });
}

}  // namespace
}  // namespace muster
