// How calls end that cannot be made.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <vector>

#include "tests/worker_sdk/executor/cluster.h"
#include "tests/worker_sdk/scarce_memory.h"

namespace muster {
namespace {

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
    EXPECT_EQ(next[0].code(), next[1].code());
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
