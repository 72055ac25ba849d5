#include "worker_sdk/executor/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "proto/base/rng.h"
#include "tests/worker_sdk/layouts.h"
#include "tests/worker_sdk/ranks.h"

namespace muster {
namespace {

using testing::HasSubstr;

// Ranks on nodes of these sizes, dealt as Deal() does.
struct Cluster {
  explicit Cluster(const std::vector<uint32_t>& sizes, bool cyclic = false)
      : layout(Deal(sizes, cyclic)) {
    for (const uint32_t size : sizes) {
      memory.push_back(MakeArenaMemory(ArenaFor(size, layout.nodes(), layout.world())));
    }
  }
  uint32_t size() const { return layout.world(); }
  // `connecting`: what happens before a rank asks for connections.
  Executor Open(
      uint32_t rank, const std::function<void(uint32_t)>& connecting = [](uint32_t) {}) {
    const Layout::Seat seat = layout.SeatOf(rank);
    std::vector<uint32_t> ranks;
    for (uint32_t place = 0; place < layout.SizeOf(seat.node); ++place) {
      ranks.push_back(layout.RankOf(seat.node, place));
    }
    const ArenaGeometry geometry =
        ArenaFor(layout.SizeOf(seat.node), layout.nodes(), layout.world());
    StatusOr<std::unique_ptr<Arena>> arena =
        Arena::Map(memory[seat.node], geometry, seat.place, std::move(ranks), {});
    CHECK(arena.ok());
    return Executor(*std::move(arena), layout,
                    [this, rank, connecting](const std::vector<uint32_t>& others,
                                             const Executor::Take& take, const Peers::GiveUp& up) {
                      connecting(rank);
                      return broker.Connect(rank, others, take, up);
                    });
  }
  const Layout layout;
  std::vector<UniqueFd> memory;
  Broker broker;
};

// One node and several, even and uneven.
const std::vector<std::vector<uint32_t>> shapes = {
    {1}, {2}, {3}, {7}, {1, 1}, {2, 2}, {1, 3}, {3, 1, 2}, {1, 1, 1}, {1, 2, 1, 1, 1, 1, 1, 2, 1},
};

Call Of(OpKind kind, uint64_t count, uint32_t root = 0, ReduceOp op = ReduceOp::kSum,
        DType dtype = DType::kFloat32) {
  return {kind, dtype, op, root, count};
}

std::vector<float> Input(uint32_t place, uint64_t count) {
  std::vector<float> out(count);
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(place + 1) + static_cast<float>(i % 1000) / 8;
  }
  return out;
}

std::string Text(const Status& status) { return status.ToString(); }

// Sizes around those where the way of doing it changes.
constexpr uint64_t kCounts[] = {0, 1, 2, 3, 16, 1000, 5000, 40000, 200001};

class ShapeTest : public testing::TestWithParam<std::vector<uint32_t>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ShapeTest, testing::ValuesIn(shapes));

TEST_P(ShapeTest, AllReduceInPlaceAndOutOfPlace) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    for (const uint64_t count : kCounts) {
      const std::vector<float> in = Input(rank, count);
      std::vector<float> want(count, 0);
      for (uint64_t i = 0; i < count; ++i) {
        want[i] = 1 + static_cast<float>(i % 1000) / 8;
        for (uint32_t r = 1; r < size; ++r) {
          want[i] += static_cast<float>(r + 1) + static_cast<float>(i % 1000) / 8;
        }
      }
      std::vector<float> out(count, -1);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count), in.data(), out.data())), "OK");
      ASSERT_EQ(out, want) << size << " ranks, " << count;
      std::vector<float> both = in;
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count), both.data(), both.data())), "OK");
      ASSERT_EQ(both, want) << size << " ranks, " << count << ", in rank";
    }
  });
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

TEST_P(ShapeTest, RootedCalls) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    for (const uint64_t count : kCounts) {
      for (uint32_t root = 0; root < size; root += 1 + size / 4) {
        const std::vector<float> mine = Input(rank, count);
        std::vector<float> data = rank == root ? mine : std::vector<float>(count, -1);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kBroadcast, count, root), data.data(), data.data())),
                  "OK");
        ASSERT_EQ(data, Input(root, count));

        std::vector<float> all(rank == root ? count * size : 0);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kGather, count, root), mine.data(), all.data())),
                  "OK");
        for (uint32_t i = 0; i < size && rank == root; ++i) {
          const std::vector<float> part(all.begin() + static_cast<ptrdiff_t>(i * count),
                                        all.begin() + static_cast<ptrdiff_t>((i + 1) * count));
          ASSERT_EQ(part, Input(i, count));
        }
        std::vector<float> back(count);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kScatter, count, root), all.data(), back.data())),
                  "OK");
        ASSERT_EQ(back, mine);

        std::vector<float> sum(rank == root ? count : 0);
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kReduce, count, root), mine.data(), sum.data())),
                  "OK");
        std::vector<float> want = mine;
        ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllReduce, count), want.data(), want.data())),
                  "OK");
        if (rank == root) {
          ASSERT_EQ(sum, want);
        }
      }
    }
  });
}

TEST_P(ShapeTest, PartsForEveryone) {
  Cluster cluster(GetParam(), GetParam().size() == 3);
  const uint32_t size = cluster.size();
  RunRanks(size, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank);
    for (const uint64_t count : kCounts) {
      std::vector<float> all(count * size);
      const std::vector<float> mine = Input(rank, count);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllGather, count), mine.data(), all.data())), "OK");
      std::vector<float> want;
      for (uint32_t i = 0; i < size; ++i) {
        const std::vector<float> part = Input(i, count);
        want.insert(want.end(), part.begin(), part.end());
      }
      ASSERT_EQ(all, want);
      // Its own rank in the output is input too.
      std::vector<float> in_place(count * size);
      std::copy(mine.begin(), mine.end(), in_place.begin() + static_cast<ptrdiff_t>(rank * count));
      float* const own = in_place.data() + rank * count;
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllGather, count), own, in_place.data())), "OK");
      ASSERT_EQ(in_place, want);

      // Twice there is back again.
      std::vector<float> there(count * size);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, count), mine.empty() ? nullptr : all.data(),
                                  there.data())),
                "OK");
      std::vector<float> back(count * size);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, count), there.data(), back.data())), "OK");
      ASSERT_EQ(back, all);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kAllToAll, count), back.data(), back.data())), "OK");
      ASSERT_EQ(back, there) << "in rank";

      std::vector<float> part(count);
      ASSERT_EQ(Text(executor.Run(Of(OpKind::kReduceScatter, count), all.data(), part.data())),
                "OK");
      for (uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(part[i], static_cast<float>(size) * mine[i]);
      }
    }
  });
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
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(one[i]), std::bit_cast<uint32_t>(seen[0][i]));
    }
  }
}

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

// `got` against the sums, or averages, of AnyNumbers() from `begin` on.
void ExpectNarrowSums(const Layout& layout, const Call& call, const std::vector<float>& got,
                      uint64_t begin, uint64_t count) {
  std::vector<std::vector<float>> all;
  for (uint32_t rank = 0; rank < layout.world(); ++rank) {
    all.push_back(AnyNumbers(rank, count));
  }
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

TEST_P(ShapeTest, NarrowNumbersAreWithinTheirBound) {
  for (const uint64_t count : kCounts) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
      Cluster cluster(GetParam(), GetParam().size() == 3);
      const uint32_t size = cluster.size();
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
        const std::vector<float> in = AnyNumbers(rank, count);
        part[rank].resize(count / size);
        for (int run = 0; run < 2; ++run) {  // the second finds the memory as the first left it
          out[rank] = in;
          ASSERT_EQ(Text(executor.Run(all_reduce, out[rank].data(), out[rank].data())), "OK");
          ASSERT_EQ(Text(executor.Run(reduce, in.data(), root.data())), "OK");
          ASSERT_EQ(Text(executor.Run(scatter, in.data(), part[rank].data())), "OK");
        }
      });
      ExpectNarrowSums(cluster.layout, all_reduce, out[0], 0, count);
      ExpectNarrowSums(cluster.layout, reduce, root, 0, count);
      for (uint32_t rank = 0; rank < size; ++rank) {
        ASSERT_EQ(std::memcmp(out[rank].data(), out[0].data(), count * sizeof(float)), 0) << rank;
        ExpectNarrowSums(cluster.layout, scatter, part[rank], rank * (count / size), count);
      }
    }
  }
}

// Else it would not be half the bytes.
TEST(ExecutorTest, WhatTravelsIsNarrow) {
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

TEST(ExecutorTest, RanksThatDisagreeOnTheWireAreBothNamed) {
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

TEST(ExecutorTest, ARankWithoutMemoryEndsTheOthers) {
  Cluster cluster({2, 1});
  std::vector<Status> ended(2);
  RunRanks(2, [&](uint32_t rank) {
    Executor executor = cluster.Open(rank, [](uint32_t) { throw std::bad_alloc(); });
    ended[rank] = executor.Run(Of(OpKind::kBarrier, 0), nullptr, nullptr);
  });
  for (const Status& status : ended) {
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("no memory is left"));
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
}

}  // namespace
}  // namespace muster
