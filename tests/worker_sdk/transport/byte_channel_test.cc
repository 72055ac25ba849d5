#include "worker_sdk/transport/byte_channel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "proto/base/arena_memory.h"

namespace muster {
namespace {

// The two ends of a pipe, and the bytes that have gone through it each way.
class PipeTest : public testing::Test {
 protected:
  struct End {
    std::unique_ptr<ByteChannel> channel;
    int rings = 0;
    uint64_t written = 0;
    uint64_t read = 0;
  };
  PipeTest() : memory_(MakePipeMemory()) {
    ends[0].channel = OverPipe(memory_, true, [this] { ++ends[0].rings; });
    ends[1].channel = OverPipe(memory_, false, [this] { ++ends[1].rings; });
  }
  // Of the byte with that number, from that end.
  static uint8_t Value(size_t from, uint64_t number) {
    return static_cast<uint8_t>(number * 31 + number / 251 + from * 7);
  }
  // In two pieces, of which `first` bytes are one; how many went.
  uint64_t Write(size_t from, uint64_t bytes, uint64_t first) {
    std::vector<uint8_t> data(bytes);
    for (uint64_t i = 0; i < bytes; ++i) {
      data[i] = Value(from, ends[from].written + i);
    }
    const ByteChannel::Moved moved =
        ends[from].channel->Write({{{data.data(), first}, {data.data() + first, bytes - first}}});
    EXPECT_FALSE(moved.ended);
    ends[from].written += moved.bytes;
    return moved.bytes;
  }
  uint64_t Read(size_t to, uint64_t bytes) {
    std::vector<uint8_t> data(bytes);
    const ByteChannel::Moved moved = ends[to].channel->Read(data.data(), bytes);
    EXPECT_FALSE(moved.ended);
    for (uint64_t i = 0; i < moved.bytes; ++i) {
      EXPECT_EQ(data[i], Value(1 - to, ends[to].read + i)) << ends[to].read + i;
    }
    ends[to].read += moved.bytes;
    return moved.bytes;
  }
  PipeSide SideOf(size_t end) const {
    PipeSide out;
    EXPECT_EQ(pread(memory_.get(), &out, sizeof(out), static_cast<off_t>(end * sizeof(out))),
              ssize_t{sizeof(out)});
    return out;
  }

  UniqueFd memory_;
  End ends[2];
};

TEST_F(PipeTest, SizesAndTurnsOfAnyKind) {
  std::minstd_rand random(1);
  const auto upto = [&](uint64_t most) { return random() % (most + 1); };
  constexpr uint64_t kSizes[] = {1, 8, 47, 48, 49, 112, 113, 2000, 40'000};
  for (int i = 0; i < 50'000; ++i) {
    const size_t end = upto(1);
    const uint64_t bytes = kSizes[upto(std::size(kSizes) - 1 - (i < 25'000 ? 3 : 0))];
    if (upto(2) == 0) {
      const uint64_t first = 1 + upto(bytes - 1);
      Write(end, bytes, first);
    } else {
      Read(end, bytes);
    }
    ASSERT_LE(ends[1 - end].written - ends[end].read, PipeSide::kBytes);
    ASSERT_FALSE(HasFailure());
  }
  for (const size_t end : {size_t{0}, size_t{1}}) {
    while (Read(end, 40'000) > 0) {
    }
    EXPECT_EQ(ends[end].read, ends[1 - end].written);
    EXPECT_GT(ends[end].read, PipeSide::kBytes);
  }
}

TEST_F(PipeTest, AnAnsweredMessageIsNear) {
  for (int i = 0; i < 5000; ++i) {
    for (const size_t from : {size_t{0}, size_t{1}}) {
      ASSERT_EQ(Write(from, 40, 8), 40U);
      ASSERT_TRUE((SideOf(from).written & PipeSide::kIsNear) != 0);
      ASSERT_EQ(Read(1 - from, 8), 8U);
      ASSERT_EQ(Read(1 - from, 100), 32U);
    }
  }
}

// The other side may be looking at it.
TEST_F(PipeTest, WhatIsNearIsNotOverwrittenBeforeItIsRead) {
  Write(0, 40, 8);
  Read(1, 10);
  Write(1, 5, 5);
  Read(0, 5);  // and with it, that so much of the first one was read
  Write(0, 20, 8);
  EXPECT_TRUE((SideOf(0).written & PipeSide::kIsNear) == 0);
  EXPECT_EQ(Read(1, 100), 30U);
  EXPECT_EQ(Read(1, 100), 20U);
}

TEST_F(PipeTest, AFullOneGoesOnWhenItIsReadThoughTheReaderSaysNothing) {
  uint64_t all = 0;
  for (uint64_t went = 1; went > 0;) {
    went = Write(0, 20'000, 8);
    all += went;
  }
  EXPECT_EQ(all, PipeSide::kBytes);
  const int before = ends[1].rings;
  for (int i = 0; i < 100; ++i) {
    while (Read(1, 7000) > 0) {
    }
    ASSERT_GT(Write(0, 20'000, 8), 0U);
  }
  EXPECT_GT(ends[1].rings, before);
}

TEST_F(PipeTest, AnAbortEndsBothWays) {
  Write(1, 10, 8);
  ends[0].channel->Abort();
  uint8_t data[100] = {};
  EXPECT_EQ(ends[1].channel->Read(data, sizeof(data)).error, ECANCELED);
  ends[1].written = PipeSide::kBytes;
  while (!ends[1].channel->Write({{{data, sizeof(data)}, {}}}).ended) {
    ASSERT_LE(ends[1].written += sizeof(data), 2 * PipeSide::kBytes);
  }
}

TEST_F(PipeTest, TwoThreads) {
  constexpr uint64_t kRounds = 20'000;
  const auto one = [&](size_t me) {
    for (uint64_t i = 0; i < kRounds; ++i) {
      const uint64_t bytes = i % 50 == 0 ? 30'000 : 1 + i % 120;
      for (const size_t from : {size_t{0}, size_t{1}}) {
        for (uint64_t went = 0; went < bytes;) {
          went += from == me ? Write(me, bytes - went, 1) : Read(me, bytes - went);
        }
      }
    }
  };
  std::thread other([&] { one(1); });
  one(0);
  other.join();
  EXPECT_EQ(ends[0].read, ends[1].read);
}

}  // namespace
}  // namespace muster
