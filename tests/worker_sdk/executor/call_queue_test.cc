#include "worker_sdk/executor/call_queue.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

std::shared_ptr<Pending> Start(CallQueue& queue, std::function<Status()> call) {
  StatusOr<std::shared_ptr<Pending>> out = queue.Start(std::move(call));
  EXPECT_TRUE(out.ok()) << out.status().ToString();
  return *std::move(out);
}

TEST(CallQueue, OneAfterTheOtherAsTheyCame) {
  std::vector<int> order;  // without a lock: TSan looks on
  CallQueue queue;
  for (int i = 0; i < 100; ++i) {
    const auto note = [&order, i] {
      order.push_back(i);
      return Status();
    };
    if (i % 10 == 9) {
      EXPECT_TRUE(queue.Run(note).ok());
    } else {
      Start(queue, note);  // nobody waits for it
    }
  }
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
}

TEST(CallQueue, StartReturnsBeforeTheCallHasEnded) {
  CallQueue queue;
  std::promise<void> go;
  const std::shared_ptr<Pending> first = Start(queue, [&] {
    go.get_future().wait();
    return Status(StatusCode::kUnavailable, "rank 3 has died");
  });
  const std::shared_ptr<Pending> second = Start(queue, [] { return Status(); });
  EXPECT_FALSE(first->Test());
  EXPECT_FALSE(second->Test());
  go.set_value();
  EXPECT_EQ(first->Wait().message(), "rank 3 has died");
  EXPECT_TRUE(first->Test());
  EXPECT_EQ(first->Wait().message(), "rank 3 has died");
  EXPECT_TRUE(second->Wait().ok());
}

TEST(CallQueue, WhatWasStartedEndsBeforeTheQueueDoes) {
  int done = 0;
  std::shared_ptr<Pending> last;
  {
    CallQueue queue;
    for (int i = 0; i < 50; ++i) {
      last = Start(queue, [&] {
        ++done;
        return Status();
      });
    }
  }
  EXPECT_EQ(done, 50);
  EXPECT_TRUE(last->Test());
  EXPECT_TRUE(last->Wait().ok());
}

TEST(CallQueue, StartWaitsWhereTooManyAreOpen) {
  CallQueue queue;
  std::promise<void> go;
  size_t done = 0;
  Start(queue, [&] {
    go.get_future().wait();
    return Status();
  });
  for (size_t i = 1; i < CallQueue::kStartedMax; ++i) {
    Start(queue, [&] {
      ++done;
      return Status();
    });
  }
  auto more = std::async(std::launch::async, [&] { Start(queue, [] { return Status(); }); });
  EXPECT_EQ(more.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  go.set_value();
  more.get();
  EXPECT_TRUE(queue.Run([] { return Status(); }).ok());
  EXPECT_EQ(done, CallQueue::kStartedMax - 1);
}

TEST(CallQueue, TheThreadTakesNoSignals) {
  CallQueue queue;
  sigset_t mask;
  const std::shared_ptr<Pending> look = Start(queue, [&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return Status();
  });
  EXPECT_TRUE(look->Wait().ok());
  EXPECT_EQ(sigismember(&mask, SIGINT), 1);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0);
}

}  // namespace
}  // namespace muster
