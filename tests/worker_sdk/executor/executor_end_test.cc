// How calls end that cannot be made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "tests/worker_sdk/executor/cluster.h"
#include "tests/worker_sdk/scarce_memory.h"

namespace muster {
namespace {

using testing::HasSubstr;

// However short, of a rank of this node and of another: nobody sleeps beyond the end.
TEST(ExecutorEnd, ATimeoutIsNoLongerThanItWasToBe) {
  for (const std::vector<uint32_t>& shape : {std::vector<uint32_t>{2}, {1, 1}}) {
    std::chrono::nanoseconds best = std::chrono::seconds(100);
    for (int i = 0; i < 10; ++i) {
      Cluster cluster(shape);
      std::promise<void> over;
      RunRanks(2, [&](uint32_t rank) {
        Executor executor = cluster.Open(rank);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), "OK");
        if (rank == 1) {
          over.get_future().wait_for(std::chrono::seconds(20));
          return;
        }
        executor.SetTimeout(std::chrono::milliseconds(4));
        const auto begin = std::chrono::steady_clock::now();
        const Status late = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
        best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
        EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
        over.set_value();
      });
    }
    EXPECT_GE(best, std::chrono::milliseconds(4));
    EXPECT_LT(best, std::chrono::milliseconds(30));
  }
}

// A rank that stands still in the middle of a call is named on all nodes, and nobody that waits.
TEST(ExecutorEnd, WhoStandsStillIsNamedOnTheOtherNodeToo) {
  Cluster cluster({2, 2});
  std::vector<Status> ended(4);
  std::promise<void> still;
  const std::shared_future<void> stands_still = still.get_future().share();
  std::latch others(3);
  RunRanks(4, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    executor.SetTimeout(std::chrono::seconds(2));
    bool first = true;
    if (rank == 1) {  // in its first wait: for what comes from the other node
      executor.SetBackground([&] {
        if (std::exchange(first, false)) {
          still.set_value();
          others.wait();
        }
        return false;
      });
    } else if (rank >= 2) {
      stands_still.wait();
    }
    std::vector<float> data(4'000'001, 1);
    ended[rank] = executor.Run(Of(OpKind::kAllReduce, data.size()), data.data(), data.data());
    if (rank != 1) {
      others.count_down();
    }
  });
  for (const uint32_t rank : {0U, 2U, 3U}) {
    EXPECT_EQ(ended[rank].code(), StatusCode::kDeadlineExceeded) << ended[rank].ToString();
    EXPECT_THAT(ended[rank].message(),
                HasSubstr("rank 1 did not go on within 2000 ms, for which rank 0 waited"));
  }
}

// Who waits for another node is not taken for who is late by those of its own.
TEST(ExecutorEnd, ANodeThatDoesNotComeIsNamed) {
  Cluster cluster({3, 1});
  std::vector<Status> ended(3);
  RunRanks(3, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    executor.SetTimeout(std::chrono::seconds(2));
    ended[rank] = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
  });
  for (const Status& status : ended) {
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
    EXPECT_THAT(status.message(),
                HasSubstr("rank 3 did not come within 2000 ms, for which rank 0 waited"));
  }
}

// Any thread hears at once, and of the wait that goes on, too.
TEST(ExecutorEnd, WhoIsLateIsKnownWhileItIs) {
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{2}, {1, 1}}) {
    Cluster cluster(sizes);
    std::atomic<Executor*> waits{nullptr};
    std::chrono::nanoseconds before{0};
    RunRanks(2, [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      executor.SetTimeout(std::chrono::seconds(20));
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), "OK");
      if (rank == 0) {
        before = executor.WaitedFor(1);
        waits = &executor;
      } else {
        Executor* other = nullptr;
        while ((other = waits.load()) == nullptr || other->WaitedFor(1) <= before) {
          std::this_thread::yield();
        }
        EXPECT_EQ(other->counters().calls, 1u);
        waits = nullptr;
      }
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), "OK");
      while (waits.load() == &executor) {  // it is looked at
        std::this_thread::yield();
      }
    });
  }
}

// Whichever allocation fails: no exception comes out, the others hear of it, and no later call
// succeeds.
void RunOutOfMemory(const std::vector<uint32_t>& shape, bool all) {
  std::atomic<bool> failed = true;
  for (int first = 0; failed; ++first) {
    failed = false;
    Cluster cluster(shape);
    Status status[2];
    Status next[2];
    RunRanks(2, [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      executor.SetTimeout(std::chrono::seconds(20));
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), "OK");
      std::vector<float> data(200'001, 1);
      const Call call = Of(OpKind::kAllReduce, data.size());
      const auto run = [&](Status& one, Status& other) {
        one = executor.Run(call, data.data(), data.data());
        other = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
      };
      if (rank == 1) {
        return run(status[1], next[1]);
      }
      {
        const ScarceMemory scarce(first, all);
        run(status[0], next[0]);
      }
      failed = ScarceMemory::has_failed();
    });
    for (const int rank : {0, 1}) {
      EXPECT_TRUE(status[rank].ok() || !next[rank].ok())
          << first << ": " << status[rank].ToString();
      EXPECT_EQ(next[rank].ok(), next[0].ok()) << first << ": " << next[rank].ToString();
    }
    EXPECT_EQ(next[0].code(), next[1].code()) << next[0].ToString() << " / " << next[1].ToString();
  }
}

TEST(ExecutorEnd, WhereMemoryRunsOutNothingSucceedsAnyMore) {
  for (const bool all : {false, true}) {
    RunOutOfMemory({2}, all);
    RunOutOfMemory({1, 1}, all);
  }
}

}  // namespace
}  // namespace muster
