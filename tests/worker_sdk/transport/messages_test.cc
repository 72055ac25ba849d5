#include "worker_sdk/transport/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/worker_sdk/patterns.h"
#include "tests/worker_sdk/ranks.h"
#include "tests/worker_sdk/transport/messages_world.h"

namespace muster {
namespace {

using testing::HasSubstr;

void SetBytes(std::vector<uint8_t>& out, uint64_t count, uint32_t seed) {
  constexpr uint64_t kPeriod = 256;
  out.resize(count);
  for (uint64_t i = 0; i < std::min(count, kPeriod); ++i) {
    out[i] = static_cast<uint8_t>(i * 7 + seed);
  }
  Repeat(out, kPeriod);
}

std::vector<uint8_t> Bytes(uint64_t count, uint32_t seed) {
  std::vector<uint8_t> out;
  SetBytes(out, count, seed);
  return out;
}

constexpr uint64_t kSizes[] = {0, 8, 1000, 32 << 10, 100'000, 3'000'000};

// Two ranks on one node, or on two; 0 and 1 talk.
class PairTest : public testing::TestWithParam<Where> {
 protected:
  World world{GetParam().sizes, GetParam().direct};
};
INSTANTIATE_TEST_SUITE_P(Where, PairTest,
                         testing::Values(Where{"one_node", {2}},
                                         Where{"one_node_direct", {2}, true},
                                         Where{"two_nodes", {1, 1}}),
                         NameOf);

TEST_P(PairTest, ThereAndBack) {
  RunRanks(2, [&](uint32_t rank) {
    World::Rank me(&world, rank);
    std::vector<uint8_t> sent;
    std::vector<uint8_t> received;
    for (uint32_t i = 0; i < 200; ++i) {
      const uint64_t size = kSizes[i % std::size(kSizes)];
      SetBytes(sent, size, i);
      received.resize(size);  // what it holds is that of another `i`
      for (const uint32_t turn : {0U, 1U}) {
        const TransferPtr transfer =
            turn == rank ? me.messages.Send(1 - rank, i, DType::kUInt8, sent.data(), size)
                         : me.messages.Receive(1 - rank, i, DType::kUInt8, received.data(), size);
        ASSERT_TRUE(me.messages.Wait(1 - rank, transfer, kNever).ok());
      }
      ASSERT_EQ(received, sent);
    }
    me.messages.Close();
  });
}

TEST_P(PairTest, BothSendMuchAtTheSameTime) {
  RunRanks(2, [&](uint32_t rank) {
    World::Rank me(&world, rank);
    const std::vector<uint8_t> sent = Bytes(5'000'000, rank);
    std::vector<uint8_t> received(sent.size());
    const TransferPtr out = me.messages.Send(1 - rank, 0, DType::kUInt8, sent.data(), sent.size());
    const TransferPtr in =
        me.messages.Receive(1 - rank, 0, DType::kUInt8, received.data(), received.size());
    EXPECT_TRUE(me.messages.Wait(1 - rank, out, kNever).ok());
    EXPECT_TRUE(me.messages.Wait(1 - rank, in, kNever).ok());
    EXPECT_EQ(received, Bytes(sent.size(), 1 - rank));
    me.messages.Close();
  });
}

TEST_P(PairTest, ASmallMessageLeavesBeforeAnybodyAsks) {
  RunRanks(2, [&](uint32_t rank) {
    World::Rank me(&world, rank);
    std::vector<uint8_t> data = Bytes(1000, 3);
    if (rank == 0) {
      // Rank 1 has not been heard of yet; then this one is gone.
      EXPECT_TRUE(me.messages.Send(1, 5, DType::kUInt8, data.data(), data.size())->ended);
      data.assign(data.size(), 0);
    } else {
      std::vector<uint8_t> received(1000);
      const TransferPtr in =
          me.messages.Receive(0, 5, DType::kUInt8, received.data(), received.size());
      EXPECT_TRUE(me.messages.Wait(0, in, kNever).ok());
      EXPECT_EQ(received, data);
    }
    me.messages.Close();
    EXPECT_FALSE(me.messages.Progress());
  });
}

TEST_P(PairTest, WhoWaitsForAnotherTagKeepsWhatComesBefore) {
  RunRanks(2, [&](uint32_t rank) {
    World::Rank me(&world, rank);
    constexpr uint32_t kTags = 50;
    std::vector<std::vector<uint8_t>> data;
    std::vector<TransferPtr> transfers;
    for (uint32_t tag = 0; tag < kTags; ++tag) {
      data.push_back(Bytes(tag % 7 == 0 ? 50'000 : 100, rank == 0 ? tag : 0));
    }
    for (uint32_t i = 0; i < kTags; ++i) {
      const uint32_t tag = rank == 0 ? i : kTags - 1 - i;
      std::vector<uint8_t>& mine = data[tag];
      transfers.push_back(
          rank == 0 ? me.messages.Send(1, tag, DType::kUInt8, mine.data(), mine.size())
                    : me.messages.Receive(0, tag, DType::kUInt8, mine.data(), mine.size()));
      if (rank == 1) {
        ASSERT_TRUE(me.messages.Wait(0, transfers.back(), kNever).ok());
        ASSERT_EQ(mine, Bytes(mine.size(), tag));
      }
    }
    for (const TransferPtr& transfer : transfers) {
      EXPECT_TRUE(me.messages.Wait(1 - rank, transfer, kNever).ok());
    }
    me.messages.Close();
  });
}

TEST_P(PairTest, TimeoutsEndTheWait) {
  World::Rank me(&world, 0);
  uint8_t byte = 0;
  const TransferPtr in = me.messages.Receive(1, 5, DType::kUInt8, &byte, 1);
  EXPECT_FALSE(me.messages.Test(in));
  EXPECT_TRUE(me.messages.Progress());
  EXPECT_EQ(me.messages.Wait(1, in, std::chrono::milliseconds(20)).ToString(),
            "DEADLINE_EXCEEDED: rank 1 did not come within 20 ms for a message with tag 5 (the "
            "timeout: the program's, or MUSTER_TIMEOUT)");
  EXPECT_FALSE(me.messages.Progress());
  me.messages.Close();
}

// Who comes later hears that nothing comes, though the other one waits for nothing any more.
TEST_P(PairTest, WhoHasGivenUpBeforeTheTwoWereConnectedSaysSo) {
  World::Rank me(&world, 0);
  World::Rank late(&world, 1);
  std::vector<uint8_t> much = Bytes(1'000'000, 0);
  const auto soon = std::chrono::milliseconds(1);
  EXPECT_FALSE(me.messages.SendNow(1, 1, DType::kUInt8, much.data(), much.size(), soon).ok());
  EXPECT_EQ(
      late.messages.ReceiveNow(0, 1, DType::kUInt8, much.data(), much.size(), kLong).ToString(),
      "UNAVAILABLE: rank 0 exchanges no messages with this rank any more: one timed out, or "
      "failed, there");
  me.messages.Close();
  late.messages.Close();
}

TEST_P(PairTest, ADeathEndsWhatWaitsForIt) {
  World::Rank me(&world, 0);
  const std::vector<uint8_t> much = Bytes(1'000'000, 0);
  std::vector<uint8_t> got(100);
  std::vector<uint8_t> more(100);
  TransferPtr out;
  TransferPtr in;
  {
    World::Rank other(&world, 1);
    out = me.messages.Send(1, 1, DType::kUInt8, much.data(), much.size());
    in = me.messages.Receive(1, 2, DType::kUInt8, got.data(), got.size());
    // What it has sent before is received.
    const std::vector<uint8_t> last = Bytes(100, 9);
    const TransferPtr sent = other.messages.Send(0, 2, DType::kUInt8, last.data(), last.size());
    EXPECT_TRUE(other.messages.Wait(0, sent, kLong).ok());
    while (!me.messages.Test(in)) {
    }
    EXPECT_EQ(got, last);
  }  // without Close()
  world.Mark(1, LineEnd::kDied);
  EXPECT_TRUE(me.source.blamed.empty());
  EXPECT_EQ(me.messages.Wait(1, out, kLong).ToString(), "UNAVAILABLE: rank 1 has died");
  EXPECT_EQ(me.source.blamed, std::vector<uint32_t>{1});
  const TransferPtr late = me.messages.Receive(1, 2, DType::kUInt8, more.data(), more.size());
  EXPECT_EQ(me.messages.Wait(1, late, kLong).ToString(), "UNAVAILABLE: rank 1 has died");
  me.messages.Close();
}

// Whether it has ended before long, for somebody who never waits.
bool EndsByItself(Messages& messages, const TransferPtr& transfer) {
  const auto until = std::chrono::steady_clock::now() + kLong;
  while (!messages.Test(transfer)) {
    if (std::chrono::steady_clock::now() > until) {
      return false;
    }
    sched_yield();
  }
  return true;
}

TEST_P(PairTest, ADeathEndsWhatIsOnlyAskedFor) {
  World::Rank me(&world, 0);
  uint8_t byte = 0;
  TransferPtr in = me.messages.Receive(1, 2, DType::kUInt8, &byte, 1);
  {
    World::Rank other(&world, 1);
    EXPECT_TRUE(other.messages.SendNow(0, 2, DType::kUInt8, &byte, 1, kLong).ok());
    EXPECT_TRUE(EndsByItself(me.messages, in));
    in = me.messages.Receive(1, 2, DType::kUInt8, &byte, 1);
    EXPECT_FALSE(me.messages.Test(in));
  }  // without Close()
  world.Mark(1, LineEnd::kDied);
  ASSERT_TRUE(EndsByItself(me.messages, in));
  EXPECT_EQ(me.messages.Wait(1, in, kLong).ToString(), "UNAVAILABLE: rank 1 has died");
  me.messages.Close();
}

TEST_P(PairTest, TheEndOfTheRoundEndsWhatIsOnlyAskedForOfOneselfToo) {
  World::Rank me(&world, 0);
  uint8_t byte = 0;
  const TransferPtr in = me.messages.Receive(0, 2, DType::kUInt8, &byte, 1);
  EXPECT_FALSE(me.messages.Test(in));
  world.MarkOver();
  ASSERT_TRUE(EndsByItself(me.messages, in));
  EXPECT_EQ(me.messages.Wait(0, in, kLong).ToString(), "UNAVAILABLE: over");
  me.messages.Close();
}

TEST_P(PairTest, AClosedOneIsNotCalledDead) {
  World::Rank me(&world, 0);
  uint8_t byte = 0;
  TransferPtr in = me.messages.Receive(1, 2, DType::kUInt8, &byte, 1);
  {
    World::Rank other(&world, 1);
    const TransferPtr sent = other.messages.Send(0, 2, DType::kUInt8, &byte, 1);
    EXPECT_TRUE(other.messages.Wait(0, sent, kLong).ok());
    other.messages.Close();
  }
  EXPECT_TRUE(me.messages.Wait(1, in, kLong).ok());
  in = me.messages.Receive(1, 2, DType::kUInt8, &byte, 1);
  EXPECT_EQ(me.messages.Wait(1, in, kLong).ToString(),
            "FAILED_PRECONDITION: rank 1 has closed its communicator");
  EXPECT_EQ(me.source.blamed, std::vector<uint32_t>{1});
  me.messages.Close();
  EXPECT_FALSE(me.messages.Wait(1, in, kLong).ok());
  EXPECT_EQ(me.source.blamed.size(), 1u) << "whom we told may be gone";
}

TEST_P(PairTest, CloseEndsWhatIsStillToBeReceived) {
  World::Rank me(&world, 0);
  uint8_t byte = 0;
  const TransferPtr in = me.messages.Receive(1, 2, DType::kUInt8, &byte, 1);
  std::thread waits(
      [&] { EXPECT_EQ(me.messages.Wait(1, in, kNever).message(), "the communicator is closed"); });
  me.messages.Close();
  waits.join();
  const TransferPtr late = me.messages.Receive(1, 2, DType::kUInt8, &byte, 1);
  EXPECT_EQ(me.messages.Wait(1, late, kNever).message(), "the communicator is closed");
}

TEST_P(PairTest, WhoDropsTellsNobodyAndTheEndOfTheRoundEndsTheOthersWaits) {
  World::Rank me(&world, 0);
  World::Rank other(&world, 1);
  uint8_t byte = 0;
  const TransferPtr greeted = other.messages.Receive(0, 1, DType::kUInt8, &byte, 1);
  EXPECT_TRUE(me.messages.SendNow(1, 1, DType::kUInt8, &byte, 1, kLong).ok());
  EXPECT_TRUE(other.messages.Wait(0, greeted, kLong).ok());
  const TransferPtr mine = me.messages.Receive(1, 2, DType::kUInt8, &byte, 1);
  const TransferPtr theirs = other.messages.Receive(0, 2, DType::kUInt8, &byte, 1);
  me.messages.Drop({StatusCode::kUnavailable, "dropped"});
  EXPECT_EQ(me.messages.Wait(1, mine, kLong).ToString(), "UNAVAILABLE: dropped");
  EXPECT_EQ(me.messages.SendNow(1, 3, DType::kUInt8, &byte, 1, kLong).message(), "dropped");
  EXPECT_FALSE(other.messages.Test(theirs));
  world.MarkOver();
  EXPECT_EQ(other.messages.Wait(0, theirs, kLong).ToString(), "UNAVAILABLE: over");
  EXPECT_TRUE(other.source.blamed.empty());
  me.messages.Close();
  other.messages.Close();
}

// Rank 0 talks with rank 1 of its node; both are threads of this process.
class DirectTest : public testing::Test {
 protected:
  // So that the two have a pipe.
  void Greet(World::Rank& from, uint32_t from_rank, World::Rank& to) {
    uint8_t byte = 0;
    const TransferPtr in = to.messages.Receive(from_rank, 9, DType::kUInt8, &byte, 1);
    const TransferPtr out = from.messages.Send(1 - from_rank, 9, DType::kUInt8, &byte, 1);
    while (!to.messages.Test(in) || !from.messages.Test(out)) {
    }
  }
  World world{{2}, true};
  const std::vector<uint8_t> much = Bytes(1'000'000, 1);  // in one pull
};

TEST_F(DirectTest, LargeMessagesAreReadStraightFromTheSender) {
  World::Rank zero(&world, 0);
  World::Rank one(&world, 1);
  Greet(zero, 0, one);
  std::vector<uint8_t> source = much;
  std::vector<uint8_t> got(much.size());
  const TransferPtr out = zero.messages.Send(1, 1, DType::kUInt8, source.data(), source.size());
  const TransferPtr in = one.messages.Receive(0, 1, DType::kUInt8, got.data(), got.size());
  while (!one.messages.Test(in)) {  // rank 0 does nothing for it
  }
  EXPECT_TRUE(got == much);
  EXPECT_TRUE(zero.messages.Test(out) || zero.messages.Test(out));
  zero.messages.Close();
  one.messages.Close();
}

TEST_F(DirectTest, WhatCannotBeReadComesThroughTheRing) {
  DirectCard nobody = world.reader.card();
  nobody.process = 0x7fffffff;  // above what Linux ever counts to
  EXPECT_FALSE(world.reader.Meet({nobody, nobody}));
  RunRanks(2, [&](uint32_t rank) {
    World::Rank me(&world, rank);
    std::vector<uint8_t> got(much.size());
    for (const uint32_t turn : {0U, 1U}) {
      const Status status =
          turn == rank
              ? me.messages.SendNow(1 - rank, 1, DType::kUInt8, much.data(), much.size(), kNever)
              : me.messages.ReceiveNow(1 - rank, 1, DType::kUInt8, got.data(), got.size(), kNever);
      EXPECT_TRUE(status.ok());
    }
    EXPECT_TRUE(got == much);
    me.messages.Close();
  });
}

// The sender's program may write to it from then on.
TEST_F(DirectTest, WhatIsWithdrawnMeanwhileIsNotReceived) {
  World::Rank zero(&world, 0);
  World::Rank one(&world, 1);
  Greet(zero, 0, one);
  Greet(one, 1, zero);
  std::vector<uint8_t> got(much.size());
  (void)zero.messages.Send(1, 1, DType::kUInt8, much.data(), much.size());
  const TransferPtr in = one.messages.Receive(0, 1, DType::kUInt8, got.data(), got.size());
  zero.messages.Close(std::chrono::milliseconds(1));
  EXPECT_EQ(one.messages.Wait(0, in, kLong).ToString(),
            "FAILED_PRECONDITION: rank 0 has closed its communicator");
  one.messages.Close();
}

TEST_F(DirectTest, ASenderThatGivesUpEndsIt) {
  World::Rank zero(&world, 0);
  World::Rank one(&world, 1);
  Greet(zero, 0, one);
  Greet(one, 1, zero);
  const TransferPtr out = zero.messages.Send(1, 1, DType::kUInt8, much.data(), much.size());
  EXPECT_EQ(zero.messages.Wait(1, out, std::chrono::milliseconds(20)).code(),
            StatusCode::kDeadlineExceeded);
  std::vector<uint8_t> got(much.size());
  EXPECT_EQ(one.messages.ReceiveNow(0, 1, DType::kUInt8, got.data(), got.size(), kLong).ToString(),
            "UNAVAILABLE: rank 0 exchanges no messages with this rank any more: one timed out, or "
            "failed, there");
  one.messages.Close();
  zero.messages.Close();
}

TEST(Messages, ToOneself) {
  World world({1});
  World::Rank me(&world, 0);
  for (const uint64_t size : kSizes) {
    const std::vector<uint8_t> sent = Bytes(size, 1);
    std::vector<uint8_t> received(size);
    const TransferPtr out = me.messages.Send(0, 1, DType::kUInt8, sent.data(), size);
    const TransferPtr in = me.messages.Receive(0, 1, DType::kUInt8, received.data(), size);
    EXPECT_TRUE(me.messages.Wait(0, in, kLong).ok());
    EXPECT_TRUE(me.messages.Wait(0, out, kLong).ok());
    EXPECT_EQ(received, sent);
  }
  me.messages.Close();
}

TEST(Messages, WhatWasSentArrivesThoughItsSenderClosesAndIsSentMore) {
  World world({1, 1});
  world.prepare = [](int fd) {
    const int little = 8192;
    const int much = 1 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &much, sizeof(much));
  };
  World::Rank me(&world, 0);
  World::Rank one(&world, 1);
  constexpr uint32_t kCount = 6;
  const std::vector<uint8_t> sent = Bytes(30'000, 1);
  std::vector<std::vector<uint8_t>> got(kCount, std::vector<uint8_t>(sent.size()));
  const TransferPtr first = me.messages.Receive(1, 0, DType::kUInt8, got[0].data(), sent.size());
  for (uint32_t tag = 0; tag < kCount; ++tag) {
    ASSERT_TRUE(one.messages.Send(0, tag, DType::kUInt8, sent.data(), sent.size())->ended);
  }
  EXPECT_TRUE(me.messages.Wait(1, first, kLong).ok());
  std::thread closes([&] { one.messages.Close(); });
  for (int i = 0; i < 100; ++i) {  // nobody asks for it
    (void)me.messages.Send(1, 9, DType::kUInt8, sent.data(), 8);
    sched_yield();
  }
  for (uint32_t tag = 1; tag < kCount; ++tag) {
    EXPECT_EQ(me.messages.ReceiveNow(1, tag, DType::kUInt8, got[tag].data(), sent.size(), kLong)
                  .ToString(),
              "OK");
    EXPECT_EQ(got[tag], sent);
  }
  closes.join();
  me.messages.Close();
}

TEST(Messages, WhatWasSentIsThereThoughItsSenderHasClosedAndHearsNothing) {
  World world({1, 1});
  World::Rank me(&world, 0);
  World::Rank one(&world, 1);
  const std::vector<uint8_t> sent = Bytes(30'000, 1);
  std::vector<uint8_t> got(sent.size());
  const TransferPtr first = me.messages.Receive(1, 0, DType::kUInt8, got.data(), sent.size());
  for (uint32_t tag = 0; tag < 3; ++tag) {
    ASSERT_TRUE(one.messages.Send(0, tag, DType::kUInt8, sent.data(), sent.size())->ended);
  }
  EXPECT_TRUE(me.messages.Wait(1, first, kLong).ok());
  one.messages.Close();
  TransferPtr unheard;
  do {  // the first few may still go
    unheard = me.messages.Send(1, 9, DType::kUInt8, sent.data(), sent.size());
  } while (unheard->status.ok());
  EXPECT_EQ(unheard->status.code(), StatusCode::kFailedPrecondition) << unheard->status.ToString();
  for (uint32_t tag = 1; tag < 3; ++tag) {
    std::fill(got.begin(), got.end(), uint8_t{0});
    EXPECT_EQ(
        me.messages.ReceiveNow(1, tag, DType::kUInt8, got.data(), sent.size(), kLong).ToString(),
        "OK");
    EXPECT_EQ(got, sent);
  }
  EXPECT_EQ(me.messages.ReceiveNow(1, 3, DType::kUInt8, got.data(), sent.size(), kLong).code(),
            StatusCode::kFailedPrecondition);
  me.messages.Close();
}

TEST(Messages, AmongManyInRandomOrderWithSmallSocketBuffers) {
  World world({3, 1, 2});
  world.prepare = [](int fd) {
    const int small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  };
  const uint32_t size = world.layout.world();
  RunRanks(size, [&](uint32_t rank) {
    World::Rank me(&world, rank);
    std::minstd_rand random(rank + 1);
    struct One {
      uint32_t with;
      std::vector<uint8_t> data;
      std::vector<uint8_t> want;
      TransferPtr transfer;
    };
    std::vector<std::unique_ptr<One>> all;
    for (uint32_t i = 0; i < 12; ++i) {
      for (uint32_t with = 0; with < size; ++with) {
        for (const bool sends : {false, true}) {
          const uint32_t pair = sends ? rank * size + with : with * size + rank;
          const uint64_t bytes = (pair * 31 + i * 17) % 5 == 0 ? 70'000 + i : pair + i;
          auto one = std::make_unique<One>();
          one->with = with;
          one->want = Bytes(bytes, pair + i);
          one->data = sends ? one->want : std::vector<uint8_t>(bytes);
          one->transfer =
              sends ? me.messages.Send(with, i % 3, DType::kUInt8, one->data.data(), bytes)
                    : me.messages.Receive(with, i % 3, DType::kUInt8, one->data.data(), bytes);
          all.push_back(std::move(one));
        }
      }
    }
    std::shuffle(all.begin(), all.end(), random);
    for (const auto& one : all) {
      ASSERT_EQ(me.messages.Wait(one->with, one->transfer, kNever).ToString(), "OK");
      ASSERT_EQ(one->data, one->want);
    }
    me.messages.Close();
  });
}

}  // namespace
}  // namespace muster
