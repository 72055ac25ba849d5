// Receives of any rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/worker_sdk/patterns.h"
#include "tests/worker_sdk/ranks.h"
#include "tests/worker_sdk/transport/messages_world.h"
#include "worker_sdk/transport/messages.h"

namespace muster {
namespace {

constexpr uint32_t kAny = Messages::kAny;

// Three ranks, the first of which receives.
class AnyRankTest : public testing::TestWithParam<Where> {
 protected:
  TransferPtr Ask(World::Rank& me, uint32_t from = kAny, uint32_t tag = 5) {
    return me.messages.Receive(from, tag, DType::kUInt32, &got, sizeof(got));
  }
  static void Send(World::Rank& from, uint32_t word) {
    ASSERT_TRUE(from.messages.SendNow(0, 5, DType::kUInt32, &word, sizeof(word), kLong).ok());
  }
  // Sends something else, so that the two are connected.
  static void Greet(World::Rank& from, World::Rank& me, const TransferPtr& asked) {
    const uint32_t word = 1;
    ASSERT_TRUE(from.messages.SendNow(0, 9, DType::kUInt32, &word, sizeof(word), kLong).ok());
    ASSERT_FALSE(me.messages.Test(asked));
  }
  World world{GetParam().sizes, GetParam().direct};
  uint32_t got = 0;
};
INSTANTIATE_TEST_SUITE_P(Where, AnyRankTest,
                         testing::Values(Where{"one_node", {3}}, Where{"direct", {3}, true},
                                         Where{"three_nodes", {1, 1, 1}}, Where{"both", {2, 1}}),
                         NameOf);

constexpr uint32_t kTags = 4;
constexpr uint32_t kEach = 100;  // messages of a rank

// The `i`-th of them, which has tag i % kTags.
std::vector<uint32_t> Numbers(uint32_t rank, uint32_t i) {
  constexpr size_t kCounts[kTags] = {2, 100, 20'000, 300'000};
  constexpr uint32_t kPeriod = 1000;
  std::vector<uint32_t> out(kCounts[i % kTags]);
  for (uint32_t at = 0; at < std::min<size_t>(out.size(), kPeriod); ++at) {
    out[at] = rank * 1000 + i + at;
  }
  Repeat(out, kPeriod);
  for (uint32_t at = kPeriod; at < out.size(); at += kPeriod) {
    out[at] += at;  // no two blocks are the same
  }
  return out;
}

// Each rank's own are among them.
void ReceiveAll(Messages& messages) {
  std::vector<std::vector<uint32_t>> sent;
  std::vector<TransferPtr> sends;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> next;  // by {rank, tag}
  for (uint32_t i = 0; i < kEach; ++i) {
    sent.push_back(Numbers(0, i));
    const uint32_t tag = i % kTags;
    const uint64_t bytes = sent.back().size() * sizeof(uint32_t);
    sends.push_back(messages.Send(0, tag, DType::kUInt32, sent.back().data(), bytes));
    for (int k = 0; k < 3; ++k) {
      std::vector<uint32_t> in(sent.back().size());
      const TransferPtr asked = messages.Receive(kAny, tag, DType::kUInt32, in.data(), bytes);
      ASSERT_EQ(messages.Wait(kAny, asked, kNever).ToString(), "OK");
      const auto from = static_cast<uint32_t>(messages.SourceOf(asked));
      ASSERT_LT(from, 3U);
      ASSERT_EQ(in, Numbers(from, tag + kTags * next[{from, tag}]++)) << from;
    }
  }
  for (const TransferPtr& send : sends) {
    ASSERT_TRUE(messages.Wait(0, send, kNever).ok());
  }
}

TEST_P(AnyRankTest, EverybodysMessagesComeInTheirOrder) {
  RunRanks(3, [&](uint32_t rank) {
    World::Rank me(&world, rank);
    for (uint32_t i = 0; rank > 0 && i < kEach; ++i) {
      const std::vector<uint32_t> sent = Numbers(rank, i);
      ASSERT_TRUE(me.messages
                      .SendNow(0, i % kTags, DType::kUInt32, sent.data(),
                               sent.size() * sizeof(uint32_t), kNever)
                      .ok());
    }
    if (rank == 0) {
      ReceiveAll(me.messages);
    }
    me.messages.Close();
  });
}

TEST_P(AnyRankTest, WhoSendsMuchDoesNotKeepOthersWaiting) {
  World::Rank me(&world, 0);
  World::Rank one(&world, 1);
  World::Rank two(&world, 2);
  const TransferPtr first = Ask(me);
  for (uint32_t i = 0; i < 50; ++i) {
    Send(one, i);
  }
  EXPECT_TRUE(me.messages.Wait(kAny, first, kLong).ok());
  EXPECT_EQ(me.messages.SourceOf(first), 1);
  Send(two, 7);
  std::vector<int> from;
  for (int i = 0; i < 3; ++i) {
    const TransferPtr asked = Ask(me);
    EXPECT_TRUE(me.messages.Wait(kAny, asked, kLong).ok());
    from.push_back(me.messages.SourceOf(asked));
  }
  EXPECT_THAT(from, testing::Contains(2));
  for (World::Rank* rank : {&one, &two, &me}) {
    rank->messages.Close(std::chrono::milliseconds(1));
  }
}

TEST_P(AnyRankTest, ReceivesGetMessagesInTheOrderInWhichTheyBegan) {
  World::Rank me(&world, 0);
  World::Rank one(&world, 1);
  const TransferPtr any = Ask(me);
  uint32_t second = 0;
  const TransferPtr named = me.messages.Receive(1, 5, DType::kUInt32, &second, sizeof(second));
  Send(one, 10);
  Send(one, 11);
  EXPECT_TRUE(me.messages.Wait(1, named, kLong).ok());
  EXPECT_TRUE(me.messages.Test(any));
  EXPECT_EQ(me.messages.SourceOf(any), 1);
  EXPECT_EQ(me.messages.SourceOf(named), 1);
  EXPECT_EQ(got, 10U);
  EXPECT_EQ(second, 11U);
  EXPECT_FALSE(me.messages.Progress() && me.messages.Progress()) << "nobody is listened to";
  one.messages.Close();
  me.messages.Close();
}

TEST_P(AnyRankTest, ADeathEndsTheWait) {
  World::Rank me(&world, 0);
  const TransferPtr asked = Ask(me);
  {
    World::Rank two(&world, 2);
    Greet(two, me, asked);
  }  // without Close()
  world.Mark(2, LineEnd::kDied);
  EXPECT_EQ(me.messages.Wait(kAny, asked, kLong).ToString(), "UNAVAILABLE: rank 2 has died");
  EXPECT_EQ(me.messages.SourceOf(asked), kAnyRank);
  EXPECT_EQ(me.source.blamed, std::vector<uint32_t>{2});
  me.messages.Close();
}

TEST_P(AnyRankTest, WhoClosesLeavesTheOthers) {
  World::Rank me(&world, 0);
  World::Rank one(&world, 1);
  const TransferPtr asked = Ask(me);
  {
    World::Rank two(&world, 2);
    Greet(two, me, asked);
    two.messages.Close();
  }
  EXPECT_FALSE(me.messages.Test(asked));
  Send(one, 10);
  EXPECT_TRUE(me.messages.Wait(kAny, asked, kLong).ok());
  EXPECT_EQ(got, 10U);
  const TransferPtr never = Ask(me);
  one.messages.Close();
  EXPECT_EQ(me.messages.Wait(kAny, never, kLong).ToString(),
            "FAILED_PRECONDITION: every other rank has closed its communicator");
  EXPECT_TRUE(me.source.blamed.empty());
  me.messages.Close();
}

// A receive that is only looked at may still get what this rank sends to itself; who waits for one
// sends nothing.
TEST_P(AnyRankTest, WhereAllOthersHaveClosedARankMaySendToItself) {
  World::Rank me(&world, 0);
  const TransferPtr asked = Ask(me);
  for (const uint32_t other : {1U, 2U}) {
    World::Rank it(&world, other);
    Greet(it, me, asked);
    it.messages.Close();
  }
  uint32_t word = 0;
  const Status never = me.messages.ReceiveNow(kAny, 6, DType::kUInt32, &word, sizeof(word), kLong);
  EXPECT_EQ(never.ToString(), "FAILED_PRECONDITION: every other rank has closed its communicator");
  EXPECT_FALSE(me.messages.Test(asked));
  Send(me, 10);
  EXPECT_TRUE(me.messages.Test(asked));
  EXPECT_EQ(got, 10U);
  EXPECT_EQ(me.messages.SourceOf(asked), 0);
  me.messages.Close();
}

TEST_P(AnyRankTest, WhatARankHasSentToItselfIsReceivedThoughAllOthersHaveClosed) {
  World::Rank me(&world, 0);
  const TransferPtr asked = Ask(me, kAny, 6);
  for (const uint32_t other : {1U, 2U}) {
    World::Rank it(&world, other);
    Greet(it, me, asked);
    it.messages.Close();
  }
  // More than the way to itself holds, all of which stands before it.
  const std::vector<uint32_t> much(8000, 1);
  for (int i = 0; i < 20; ++i) {
    (void)me.messages.Send(0, 7, DType::kUInt32, much.data(), much.size() * sizeof(uint32_t));
  }
  Send(me, 10);
  EXPECT_EQ(me.messages.ReceiveNow(kAny, 5, DType::kUInt32, &got, sizeof(got), kLong).ToString(),
            "OK");
  EXPECT_EQ(got, 10U);
  me.messages.Close(std::chrono::milliseconds(1));
}

TEST_P(AnyRankTest, WhoWaitsInVainHearsWhichTagsHaveCome) {
  World::Rank me(&world, 0);
  World::Rank other(&world, 1);
  uint8_t byte = 0;
  const auto soon = std::chrono::milliseconds(20);
  for (const uint32_t tag : {9U, 7U, 7U}) {
    ASSERT_TRUE(other.messages.SendNow(0, tag, DType::kUInt8, &byte, 1, kLong).ok());
  }
  for (const uint32_t from : {1U, kAny}) {
    EXPECT_THAT(
        me.messages.ReceiveNow(from, 5, DType::kUInt8, &byte, 1, soon).message(),
        testing::HasSubstr("; rank 1 has sent what nobody here has received, with tags 7, 9"));
  }
  ASSERT_TRUE(me.messages.ReceiveNow(1, 9, DType::kUInt8, &byte, 1, kLong).ok());
  for (const uint32_t tag : {1U, 2U, 3U, 4U}) {
    ASSERT_TRUE(other.messages.SendNow(0, tag, DType::kUInt8, &byte, 1, kLong).ok());
  }
  EXPECT_THAT(me.messages.ReceiveNow(1, 5, DType::kUInt8, &byte, 1, soon).message(),
              testing::HasSubstr("with tags 1, 2, 3, ..."));
  me.messages.Close(soon);
}

TEST_P(AnyRankTest, WhatComesTooLateIsForTheNext) {
  World::Rank me(&world, 0);
  World::Rank one(&world, 1);
  uint32_t lost = 0;
  const std::string late =
      "DEADLINE_EXCEEDED: no rank has sent a message with tag 5 within 20 ms (the timeout: the "
      "program's, or MUSTER_TIMEOUT)";
  EXPECT_EQ(
      me.messages
          .ReceiveNow(kAny, 5, DType::kUInt32, &lost, sizeof(lost), std::chrono::milliseconds(20))
          .ToString(),
      late);
  EXPECT_FALSE(me.messages.Progress() && me.messages.Progress());
  Send(one, 10);
  EXPECT_TRUE(me.messages.Wait(1, Ask(me, 1), kLong).ok());
  EXPECT_EQ(got, 10U);
  EXPECT_EQ(lost, 0U);
  one.messages.Close();
  me.messages.Close();
}

TEST_P(AnyRankTest, CloseAndDropEndIt) {
  for (const bool drops : {false, true}) {
    World::Rank me(&world, 0);
    const TransferPtr asked = Ask(me);
    const std::string why = drops ? "dropped" : "the communicator is closed";
    std::thread waits([&] { EXPECT_EQ(me.messages.Wait(kAny, asked, kNever).message(), why); });
    if (drops) {
      me.messages.Drop({StatusCode::kUnavailable, why});
    } else {
      me.messages.Close();
    }
    waits.join();
    EXPECT_EQ(Ask(me)->status.message(), why);
  }
}

TEST_P(AnyRankTest, TheEndOfTheRoundEndsIt) {
  World::Rank me(&world, 0);
  const TransferPtr asked = Ask(me);
  EXPECT_FALSE(me.messages.Test(asked));
  world.MarkOver();
  EXPECT_EQ(me.messages.Wait(kAny, asked, kLong).ToString(), "UNAVAILABLE: over");
  me.messages.Close();
}

TEST(MessagesOfAnyRank, WhoCannotBeReachedIsNamedWhenNobodySends) {
  World world({1, 1, 1});
  World::Rank me(&world, 0);
  World::Rank one(&world, 1);
  uint32_t word = 0;
  const TransferPtr reached = me.messages.Receive(1, 9, DType::kUInt32, &word, sizeof(word));
  world.refusal = Status(StatusCode::kUnavailable, "no route to rank 2");
  const Status late = me.messages.ReceiveNow(kAny, 5, DType::kUInt32, &word, sizeof(word),
                                             std::chrono::milliseconds(20));
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.message(), testing::EndsWith("; no route to rank 2"));
  me.messages.Close(std::chrono::milliseconds(1));
  EXPECT_FALSE(reached->status.ok());
  one.messages.Close();
}

TEST(MessagesOfAnyRank, OfAWorldOfOne) {
  World world({1});
  World::Rank me(&world, 0);
  uint32_t word = 0;
  const TransferPtr asked = me.messages.Receive(kAny, 5, DType::kUInt32, &word, sizeof(word));
  EXPECT_FALSE(me.messages.Test(asked));
  const uint32_t sent = 3;
  EXPECT_TRUE(me.messages.SendNow(0, 5, DType::kUInt32, &sent, sizeof(sent), kLong).ok());
  EXPECT_TRUE(me.messages.Wait(kAny, asked, kLong).ok());
  EXPECT_EQ(word, 3U);
  EXPECT_EQ(me.messages.SourceOf(asked), 0);
  me.messages.Close();
}

}  // namespace
}  // namespace muster
