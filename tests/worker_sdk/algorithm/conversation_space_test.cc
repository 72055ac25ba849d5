// What a conversation keeps for who asks later, and that nobody waits for room.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/worker_sdk/algorithm/conversation_pair.h"

namespace muster {
namespace {

// What has gone whole and is not asked for, on both sides together.
TEST_F(ConversationTest, WhatIsKeptIsBounded) {
  std::vector<std::unique_ptr<Owned>> sends;
  const auto send = [&] {
    sends.push_back(std::make_unique<Owned>(5, 1000, static_cast<uint8_t>(sends.size())));
    a.Send(sends.back()->transfer);
    a.Keep(sends.back()->transfer);
    return sends.back()->transfer->ended;
  };
  while (send()) {
    ASSERT_LT(sends.size(), 20'000U);
    if (sends.size() % 2 == 0) {  // some are here, some there
      Owned other(6, 10);
      b.Receive(other.transfer);
      Move(a, b, 2000);
      b.Abandon(other.transfer, {StatusCode::kDeadlineExceeded, "late"});
    }
  }
  constexpr uint64_t kWhole = ConversationLimits().kept / (1000 + Conversation::kMessageCost);
  EXPECT_EQ(sends.size() - 1, kWhole);
  EXPECT_TRUE(a.is_held_back(sends.back()->transfer));
  EXPECT_FALSE(send());
  // Whoever waits for another message gets it.
  Owned other(6, 1000);
  b.Receive(other.transfer);
  Owned last(6, 1000, 77);
  a.Send(last.transfer);
  a.Keep(last.transfer);
  EXPECT_FALSE(last.transfer->ended);
  MoveAll();
  EXPECT_TRUE(last.transfer->ended);
  EXPECT_EQ(other.memory, last.memory);
  for (size_t i = 0; i < sends.size(); ++i) {
    EXPECT_EQ(sends[i]->transfer->ended, i < kWhole);
    Owned taken(5, 1000);
    b.Receive(taken.transfer);
    MoveAll();
    ASSERT_TRUE(taken.transfer->ended && sends[i]->transfer->ended);
    ASSERT_EQ(taken.memory, sends[i]->memory);
  }
  EXPECT_FALSE(a.open() || b.open());
  EXPECT_TRUE(send());
}

TEST_F(ConversationTest, OffersAreBounded) {
  const ConversationLimits limits{0, 3};
  Conversation sender("rank 1", limits);
  Conversation receiver("rank 0", limits);
  std::vector<std::unique_ptr<Owned>> sends;
  for (uint32_t i = 0; i < 4; ++i) {
    sends.push_back(std::make_unique<Owned>(i, 10, 5));
    sender.Send(sends.back()->transfer);
    EXPECT_EQ(sends.back()->transfer->ended, i == 3);
  }
  EXPECT_EQ(sends[3]->status().ToString(),
            "RESOURCE_EXHAUSTED: 3 messages to rank 1 wait to be received, and no more may: wait "
            "for some of them before the next is sent");
  Owned received(1, 10);
  receiver.Receive(received.transfer);
  while (Move(sender, receiver) + Move(receiver, sender) > 0) {
  }
  EXPECT_TRUE(received.transfer->ended && sends[1]->transfer->ended);
  Owned again(4, 10);
  sender.Send(again.transfer);
  EXPECT_FALSE(again.transfer->ended);
}

// All sends of both sides have begun; each side waits for one message after the other, in an order
// of its own. Nothing but who waits moves anything.
TEST_F(ConversationTest, NoMatchedPairHangsForLackOfSpace) {
  constexpr uint32_t kTags = 40;
  constexpr size_t kMessages = 3000;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::minstd_rand random(seed);
    const ConversationLimits limits{random() % 20'000, kMessages};
    Conversation sides[2] = {Conversation("rank 1", limits), Conversation("rank 0", limits)};
    std::vector<std::unique_ptr<Owned>> sends[2];
    std::vector<Owned*> wanted[2];  // what the other side has sent
    uint64_t went = 0;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      if (seed % 2 == 0) {
        sides[side].AllowPulls();
      }
      for (size_t i = 0; i < kMessages; ++i) {
        const uint64_t bytes = random() % 50 == 0 ? 40'000 : random() % 300;
        sends[side].push_back(std::make_unique<Owned>(static_cast<uint32_t>(random() % kTags),
                                                      bytes, static_cast<uint8_t>(i)));
        sides[side].Send(sends[side].back()->transfer);
        sides[side].Keep(sends[side].back()->transfer);
        went += sends[side].back()->transfer->ended ? Conversation::kMessageCost + bytes : 0;
      }
      std::vector<uint32_t> tags(kTags);
      std::iota(tags.begin(), tags.end(), 0);
      std::shuffle(tags.begin(), tags.end(), random);
      for (const uint32_t tag : tags) {
        for (const auto& send : sends[side]) {
          if (send->transfer->tag == tag) {
            wanted[1 - side].push_back(send.get());
          }
        }
      }
    }
    EXPECT_LE(went, 2 * limits.kept);
    std::unique_ptr<Owned> waits[2];
    size_t received[2] = {};
    while (received[0] < kMessages || received[1] < kMessages) {
      uint64_t moved = 0;
      for (const size_t side : {size_t{0}, size_t{1}}) {
        if (!waits[side] && received[side] < kMessages) {
          const Owned& next = *wanted[side][received[side]];
          waits[side] = std::make_unique<Owned>(next.transfer->tag, next.memory.size());
          sides[side].Receive(waits[side]->transfer);
          ++moved;
        }
        moved += Move(sides[side], sides[1 - side]) + Pull(sides[side]);
        if (waits[side] && waits[side]->transfer->ended) {
          ASSERT_EQ(waits[side]->memory, wanted[side][received[side]++]->memory);
          waits[side].reset();
          ++moved;
        }
      }
      ASSERT_GT(moved, 0U) << "seed " << seed << ": " << received[0] << ", " << received[1];
    }
    while (Move(sides[0], sides[1]) + Move(sides[1], sides[0]) > 0) {
    }
    EXPECT_FALSE(sides[0].open() || sides[1].open());
  }
}

// In the opposite order of tags, and none is looked for among all.
TEST_F(ConversationTest, ManyAreKeptAndFound) {
  constexpr uint32_t kMany = 100'000;
  std::vector<Owned> sends;
  for (uint32_t i = 0; i < kMany; ++i) {
    sends.emplace_back(i, 8, static_cast<uint8_t>(i));
    a.Send(sends.back().transfer);
    a.Keep(sends.back().transfer);
  }
  for (uint32_t i = kMany; i > 0; --i) {
    Owned received(i - 1, 8);
    b.Receive(received.transfer);
    MoveAll();
    ASSERT_TRUE(received.transfer->ended);
    ASSERT_EQ(received.memory, sends[i - 1].memory);
  }
}

// More than a sender may send unasked.
TEST_F(ConversationTest, AFloodEndsIt) {
  for (const bool offers : {false, true}) {
    Conversation sender("rank 1");  // with larger limits
    Conversation receiver("rank 0", {1000, 3});
    Owned asked(6, 10);
    receiver.Receive(asked.transfer);
    std::vector<std::unique_ptr<Owned>> sends;
    for (uint32_t i = 0; i < 5; ++i) {
      sends.push_back(std::make_unique<Owned>(5, offers ? 40'000 : 100));
      sender.Send(sends.back()->transfer);
      Move(sender, receiver);
      EXPECT_EQ(receiver.ended(), i >= (offers ? 3U : 4U));
    }
  }
}

}  // namespace
}  // namespace muster
