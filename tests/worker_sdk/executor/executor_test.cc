#include "worker_sdk/executor/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/worker_sdk/executor/cluster.h"

namespace muster {
namespace {

using testing::HasSubstr;

class ShapeTest : public testing::TestWithParam<std::vector<uint32_t>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ShapeTest, testing::ValuesIn(shapes));

TEST_P(ShapeTest, AllReduceInPlaceAndOutOfPlace) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    for (const uint64_t count : kCounts) {
      const std::vector<float> in = Input(rank, count);
      std::vector<float> want(count);
      for (uint64_t i = 0; i < std::min(count, kInputPeriod); ++i) {
        want[i] = 1 + static_cast<float>(i) / 8;
        for (uint32_t r = 1; r < size; ++r) {
          want[i] += static_cast<float>(r + 1) + static_cast<float>(i) / 8;
        }
      }
      Repeat(want, kInputPeriod);
      std::vector<float> out(count, -1);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count), in.data(), out.data())), "OK");
      ASSERT_EQ(out, want) << size << " ranks, " << count;
      std::vector<float> both = in;
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count), both.data(), both.data())), "OK");
      ASSERT_EQ(both, want) << size << " ranks, " << count << ", in rank";
    }
  });
}

TEST_P(ShapeTest, WhatRanksOfANodeSayOfThemselves) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  RunRanks(cluster.size(), [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    const std::vector<uint32_t> want = cluster.layout.RanksOf(cluster.layout.SeatOf(rank).node);
    for (int run = 0; run < 3; ++run) {
      std::vector<uint32_t> got(want.size());
      ASSERT_EQ(Text(executor.GatherOnNode(&rank, got.data(), sizeof(rank))), "OK");
      ASSERT_EQ(got, want);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), "OK");
    }
  });
}

TEST(ExecutorTest, MemoryThatCannotBeReadEndsTheCall) {
  Cluster cluster({2});
  DirectReader reader;
  const DirectCard nobody = {INT32_MAX, 0, 0};
  EXPECT_FALSE(reader.Meet({nobody, nobody}));
  RunRanks(2, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    executor.SetDirect(&reader, /*quick_slots=*/false);
    std::vector<float> data(1 << 20);
    const Status status = executor.Run(Of(OpKind::kBroadcast, data.size()), nullptr, data.data());
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("rank 0 has died"));
    EXPECT_EQ(status.peer(), 0);
    EXPECT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), Text(status));
  });
}

// Its memory is its program's again, and may hold anything.
TEST(ExecutorTest, WhatIsReadFromOneThatHasGivenUpIsNoResult) {
  Cluster cluster({2});
  const auto reader = cluster.MeetDirectly();
  Executor root = cluster.Open(0);
  Executor other = cluster.Open(1);
  root.SetDirect(reader.get(), /*quick_slots=*/false);
  other.SetDirect(reader.get(), /*quick_slots=*/false);
  root.SetTimeout(std::chrono::milliseconds(1));
  const Call call = Of(OpKind::kBroadcast, 100'000);
  std::vector<float> data(100'000, 1);
  const Status gave_up = root.Run(call, data.data(), data.data());
  EXPECT_EQ(gave_up.code(), StatusCode::kDeadlineExceeded);
  std::fill(data.begin(), data.end(), 2.0F);
  std::vector<float> got(100'000);
  const Status status = other.Run(call, got.data(), got.data());
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.ToString();
}

TEST(ExecutorTest, AverageDividesOnce) {
  Cluster cluster({2, 2});
  RunRanks(4, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    for (const uint64_t count : {uint64_t{1}, uint64_t{100000}}) {
      std::vector<double> data(count, rank);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count, 0, ReduceOp::kAvg, DType::kFloat64),
                                  data.data(), data.data())),
                "OK");
      ASSERT_EQ(data, std::vector<double>(count, 1.5));
    }
  });
}

// The largest number, whose sums are beyond the type and beyond float32, a small one of all bits,
// and the smallest.
TEST_P(ShapeTest, AverageOfEqualNarrowFloatsIsThatNumber) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      const uint16_t numbers[] = {static_cast<uint16_t>(dtype == DType::kFloat16 ? 0x7BFF : 0x7F7F),
                                  static_cast<uint16_t>(dtype == DType::kFloat16 ? 0x07FF : 0x00FF),
                                  0x0001};
      for (const uint64_t count : kCounts) {
        std::vector<uint16_t> in(count * size);
        for (uint64_t i = 0; i < in.size(); ++i) {
          in[i] = numbers[count == 0 ? 0 : i % count % 3];
        }
        for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduce, OpKind::kReduceScatter}) {
          std::vector<uint16_t> out(count);
          ASSERT_EQ(
              Text(executor.Run(Of(kind, count, 0, ReduceOp::kAvg, dtype), in.data(), out.data())),
              "OK");
          for (uint64_t i = 0; i < count && (kind != OpKind::kReduce || rank == 0); ++i) {
            ASSERT_EQ(out[i], in[i]) << Name(kind) << " of " << count << ": " << i;
          }
        }
      }
    }
  });
}

void CheckRootedCalls(Cluster& cluster, const DirectReader* direct) {
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    if (direct != nullptr) {
      executor.SetDirect(direct, /*quick_slots=*/false);
    }
    std::vector<float> data;
    std::vector<float> all;
    std::vector<float> sum;
    for (const uint64_t count : kCounts) {
      const std::vector<float> mine = Input(rank, count);
      for (uint32_t root = 0; root < size; root += 1 + size / 4) {
        Blank(data, count);
        if (rank == root) {
          data = mine;
        }
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kBroadcast, count, root), data.data(), data.data())),
                  "OK");
        ASSERT_TRUE(IsInput(data.data(), root, count));

        Blank(all, rank == root ? count * size : 0);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kGather, count, root), mine.data(), all.data())),
                  "OK");
        for (uint32_t i = 0; i < size && rank == root; ++i) {
          ASSERT_TRUE(IsInput(all.data() + i * count, i, count)) << i;
        }
        Blank(data, count);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kScatter, count, root), all.data(), data.data())),
                  "OK");
        ASSERT_EQ(data, mine);

        Blank(sum, rank == root ? count : 0);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kReduce, count, root), mine.data(), sum.data())),
                  "OK");
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count), data.data(), data.data())),
                  "OK");
        if (rank == root) {
          ASSERT_EQ(sum, data);
        }
      }
    }
  });
}

TEST_P(ShapeTest, RootedCalls) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  CheckRootedCalls(cluster, nullptr);
  Cluster again(GetParam(), GetParam().size() == 3);
  CheckRootedCalls(again, cluster.MeetDirectly().get());
}

void CheckPartsForEveryone(Cluster& cluster, const DirectReader* direct) {
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    if (direct != nullptr) {
      executor.SetDirect(direct, /*quick_slots=*/false);
    }
    std::vector<float> all;
    std::vector<float> there;
    std::vector<float> back;
    for (const uint64_t count : kCounts) {
      const std::vector<float> mine = Input(rank, count);
      const auto expect_everyones = [&](const std::vector<float>& got) {
        for (uint32_t i = 0; i < size; ++i) {
          ASSERT_TRUE(IsInput(got.data() + i * count, i, count)) << i;
        }
      };
      Blank(all, count * size);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllGather, count), mine.data(), all.data())), "OK");
      expect_everyones(all);
      // Its own rank in the output is input too.
      float* const own = Blank(there, count * size) + rank * count;
      std::copy(mine.begin(), mine.end(), own);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllGather, count), own, there.data())), "OK");
      expect_everyones(there);

      // Twice there is back again.
      Blank(there, count * size);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, count), mine.empty() ? nullptr : all.data(),
                                  there.data())),
                "OK");
      Blank(back, count * size);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, count), there.data(), back.data())), "OK");
      ASSERT_EQ(back, all);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, count), back.data(), back.data())), "OK");
      ASSERT_EQ(back, there) << "in rank";

      float* const part = Blank(back, count);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kReduceScatter, count), all.data(), part)), "OK");
      const auto is_sum = [size](float got, float in) {
        return got == static_cast<float>(size) * in;
      };
      ASSERT_TRUE(std::equal(part, part + count, mine.begin(), is_sum)) << count;
    }
  });
}

TEST_P(ShapeTest, PartsForEveryone) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  CheckPartsForEveryone(cluster, nullptr);
  Cluster again(GetParam(), GetParam().size() == 3);
  CheckPartsForEveryone(again, cluster.MeetDirectly().get());
}

// A second run gives the same bits, and every rank has them, whoever comes late.
TEST_P(ShapeTest, EqualBits) {
  constexpr uint64_t kCount = 300011;
  Cluster cluster(GetParam());
  const uint32_t size = cluster.size();
  std::vector<std::vector<float>> seen(size_t{size} * 3);
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    for (uint32_t run = 0; run < 3; ++run) {
      std::vector<float> data(kCount);
      for (uint64_t i = 0; i < kCount; ++i) {
        data[i] = 1.0f / static_cast<float>(i * size + rank + 1);
      }
      for (uint32_t i = 0; i < (rank + run) % size; ++i) {
        std::this_thread::yield();
      }
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, kCount), data.data(), data.data())), "OK");
      seen[size_t{run} * size + rank] = std::move(data);
    }
  });
  for (const std::vector<float>& one : seen) {
    ASSERT_EQ(one.size(), kCount);
    ASSERT_TRUE(std::equal(one.begin(), one.end(), seen[0].begin(), SameBits));
  }
}

TEST(ExecutorTest, RanksThatDisagreeAreBothNamed) {
  Cluster cluster({2});
  Status ended[2];
  RunRanks(2, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    ASSERT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), "OK");
    std::vector<float> data(64);
    const Call call = rank == 0 ? Of(OpKind::kAllReduce, 64) : Of(OpKind::kBroadcast, 32, 1);
    ended[rank] = executor.Run(call, data.data(), data.data());
    if (ended[rank].ok()) {  // the root of a broadcast waits for nobody: it hears of it next time
      ended[rank] = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
    }
    EXPECT_EQ(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr).ToString(),
              ended[rank].ToString());
  });
  for (const Status& status : ended) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
  }
  EXPECT_THAT(ended[0].message(), HasSubstr("rank 0 calls all_reduce(64 x float32, sum)"));
  EXPECT_THAT(ended[0].message(), HasSubstr("rank 1 calls broadcast(32 x float32, root 1)"));
}

TEST(ExecutorTest, ASplitIsNoGatherOfTheSameSize) {
  Cluster cluster({2});
  RunRanks(2, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    int64_t wish[2] = {};
    int64_t all[4] = {};
    const OpKind kind = rank == 0 ? OpKind::kSplit : OpKind::kAllGather;
    const Status status = executor.Run(Of(kind, 2, 0, ReduceOp::kSum, DType::kInt64), wish, all);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("rank 0 calls split"));
    EXPECT_THAT(status.message(), HasSubstr("rank 1 calls all_gather(2 x int64)"));
  });
}

TEST(ExecutorTest, TimeoutNamesWhoIsMissing) {
  Cluster cluster({3});
  Executor executor = cluster.Open(0);
  Executor other = cluster.Open(2);
  executor.SetTimeout(std::chrono::milliseconds(1));
  const Status status = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(),
              HasSubstr("barrier (call 1) on rank 0: rank 1 did not come within 1 ms"));
  // The others learn of it: nobody waits for a rank that has given up.
  EXPECT_EQ(other.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr).code(),
            StatusCode::kDeadlineExceeded);
}

// Larger than what goes as a whole, in buffers that hold little: every way a message can be cut.
TEST(ExecutorTest, ShortReadsAndWrites) {
  for (const std::vector<uint32_t>& shape :
       std::vector<std::vector<uint32_t>>{{1, 1}, {2, 3}, {1, 1, 1}, {2, 2, 2, 2}}) {
    Cluster cluster(shape);
    cluster.broker.prepare = [](int fd) {
      // Some segments: with a window below one the kernel itself would wait between any two.
      const int segment = 536;
      const int bytes = 8 * segment;
      setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
      setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
      setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    };
    RunRanks(cluster.size(), [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      executor.SetCarriers(cluster.layout.SmallestNode());
      constexpr uint64_t kCount = 300001;
      std::vector<int64_t> data(kCount);
      for (int run = 0; run < 2; ++run) {
        for (uint64_t i = 0; i < kCount; ++i) {
          data[i] = static_cast<int64_t>(i * (rank + 1));
        }
        const Call call = Of(OpKind::kAllReduce, kCount, 0, ReduceOp::kSum, DType::kInt64);
        ASSERT_EQ(Text(executor.Run(call, data.data(), data.data())), "OK");
        const uint64_t factor = uint64_t{cluster.size()} * (cluster.size() + 1) / 2;
        for (uint64_t i = 0; i < kCount; ++i) {
          ASSERT_EQ(data[i], static_cast<int64_t>(i * factor));
        }
      }
    });
  }
}

TEST(ExecutorTest, RanksOfTwoNodesThatDisagreeAreBothNamed) {
  Cluster cluster({2, 2});
  std::vector<Status> ended(4);
  RunRanks(4, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    std::vector<float> data(64);
    const Call call = Of(OpKind::kAllReduce, rank < 2 ? 64 : 32);
    ended[rank] = executor.Run(call, data.data(), data.data());
  });
  for (const Status& status : ended) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("calls all_reduce(64 x float32, sum)"));
    EXPECT_THAT(status.message(), HasSubstr("calls all_reduce(32 x float32, sum)"));
  }
}

// Each thinks that the other one sends.
TEST(ExecutorTest, RootsThatDisagreeEndInsteadOfWaiting) {
  for (const OpKind kind : {OpKind::kReduce, OpKind::kGather}) {
    Cluster cluster({1, 1});
    std::vector<Status> ended(2);
    RunRanks(2, [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      std::vector<float> in(64);
      std::vector<float> out(128);
      ended[rank] = executor.Run(Of(kind, 64, rank), in.data(), out.data());
    });
    for (const Status& status : ended) {
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.ToString();
      EXPECT_THAT(status.message(), HasSubstr("root 0"));
      EXPECT_THAT(status.message(), HasSubstr("root 1"));
    }
  }
}

// The leader of the other node stands still because one of its own ranks is missing.
TEST(ExecutorTest, AFailureOfOneNodeEndsTheOthers) {
  Cluster cluster({2, 2});
  std::vector<Status> ended(4);
  RunRanks(3, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    if (rank == 2) {
      executor.SetTimeout(std::chrono::milliseconds(1));
    }
    ended[rank] = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
  });
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ended[rank].code(), StatusCode::kDeadlineExceeded) << ended[rank].ToString();
    EXPECT_THAT(ended[rank].message(), HasSubstr("rank 3 did not come within 1 ms"));
  }
}

// Whoever waits for one that waits itself does not name that one.
TEST(ExecutorTest, OfManyWhoseTimeIsOverTheOneThatKnowsSaysWhoIsLate) {
  Cluster cluster({2, 1, 2});
  std::vector<Status> ended(5);
  RunRanks(4, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    executor.SetTimeout(std::chrono::seconds(2));
    ended[rank] = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
  });
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ended[rank].code(), StatusCode::kDeadlineExceeded) << ended[rank].ToString();
    EXPECT_THAT(ended[rank].message(),
                HasSubstr("rank 4 did not come within 2000 ms, for which rank 3 waited"));
  }
}

TEST(ExecutorTest, CountsItsCallsAndWaits) {
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{3}, {1, 1, 1}, {2, 1}}) {
    Cluster cluster(sizes);
    RunRanks(3, [&](uint32_t rank) {
      Executor executor = cluster.Open(rank);
      std::vector<float> data(1000);
      for (int run = 0; run < 2; ++run) {
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, 1000), data.data(), data.data())), "OK");
      }
      const Counters counters = executor.counters();
      EXPECT_EQ(counters.calls, 2u);
      EXPECT_EQ(counters.bytes, 8000u);
      std::chrono::nanoseconds waited(0);
      for (uint32_t other = 0; other < 3; ++other) {
        waited += executor.WaitedFor(other);
      }
      EXPECT_EQ(waited, counters.waited_on_node + counters.waited_between_nodes);
      EXPECT_EQ(executor.WaitedFor(rank).count(), 0);
    });
  }
}

TEST(ExecutorTest, ARankWithoutMemoryEndsTheOthers) {
  Cluster cluster({2, 1});
  std::vector<Status> ended(2);
  RunRanks(2, [&](uint32_t rank) {
    Executor executor = cluster.Open(
        rank, [](uint32_t) { std::rethrow_exception(std::make_exception_ptr(std::bad_alloc())); });
    ended[rank] = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
  });
  for (const Status& status : ended) {
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("out of memory"));
  }
}

TEST(ExecutorTest, APeerThatClosesIsNamed) {
  Cluster cluster({1, 1});
  Status ended;
  RunRanks(2, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    ASSERT_EQ(Text(executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr)), "OK");
    if (rank == 0) {
      ended = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
    }
  });
  EXPECT_EQ(ended.code(), StatusCode::kFailedPrecondition) << ended.ToString();
  EXPECT_THAT(ended.message(), HasSubstr("rank 1 has closed its communicator"));
  EXPECT_EQ(ended.peer(), 1);
}

}  // namespace
}  // namespace muster
