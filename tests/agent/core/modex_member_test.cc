#include "agent/core/modex_member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr RoundId kRound = {1, 7};

ModexNote Note(uint32_t peer, uint32_t rank) {
  ModexNote out;
  out.round = kRound;
  out.peer = peer;
  out.rank = rank;
  return out;
}

ModexNote Answer(uint32_t peer, uint32_t rank, std::string bytes) {
  ModexNote out = Note(peer, rank);
  out.answers = true;
  out.bytes = std::move(bytes);
  return out;
}

class ModexMemberTest : public testing::Test {
 protected:
  ModexMemberTest() { member_.BeginRound(kRound); }

  ModexMember member_;
  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
};

TEST_F(ModexMemberTest, D1WhatIsSoughtIsFoundOnce) {
  EXPECT_FALSE(member_.seeks());
  const auto due = member_.Seek(3, 12, start_);
  ASSERT_EQ(due.asks.size(), 1u);
  EXPECT_EQ(due.asks[0].round, kRound);
  EXPECT_EQ(due.asks[0].peer, 3u);
  EXPECT_EQ(due.asks[0].rank, 12u);
  EXPECT_FALSE(due.asks[0].answers);
  EXPECT_TRUE(member_.seeks());
  EXPECT_FALSE(member_.Take(Answer(2, 12, "x")).found.has_value()) << "of a node not asked";
  EXPECT_FALSE(member_.Take(Answer(3, 13, "x")).found.has_value()) << "of a rank not sought";
  ModexNote old = Answer(3, 12, "old");
  old.round.n = 6;
  EXPECT_FALSE(member_.Take(old).found.has_value());
  const auto taken = member_.Take(Answer(3, 12, "card"));
  ASSERT_TRUE(taken.found.has_value());
  EXPECT_EQ(taken.found->rank, 12u);
  EXPECT_EQ(*taken.found->bytes, "card");
  EXPECT_FALSE(member_.Take(Answer(3, 12, "card")).found.has_value()) << "it came twice";
  EXPECT_FALSE(member_.seeks());
}

TEST_F(ModexMemberTest, D1ARefusalIsAnAnswer) {
  member_.Seek(3, 12, start_);
  ModexNote refusal = Answer(3, 12, "");
  refusal.refused = "node 3 is lost";
  EXPECT_EQ(member_.Take(refusal).found->bytes.status().message(), "node 3 is lost");
}

TEST_F(ModexMemberTest, D1PatienceEnds) {
  member_.Seek(3, 12, start_);
  EXPECT_TRUE(member_.TimePassed(start_ + kModexPatience - absl::Milliseconds(1)).given_up.empty());
  const auto due = member_.TimePassed(start_ + kModexPatience);
  EXPECT_TRUE(due.asks.empty());
  ASSERT_EQ(due.given_up.size(), 1u);
  EXPECT_EQ(due.given_up[0].rank, 12u);
  EXPECT_EQ(due.given_up[0].bytes.status().message(),
            "rank 12 of node 3 had put nothing within 60.0 s, or its node did not answer");
  EXPECT_FALSE(member_.seeks());
}

TEST_F(ModexMemberTest, D2AnAskIsSaidAgain) {
  member_.Seek(3, 12, start_);
  EXPECT_TRUE(member_.TimePassed(start_ + absl::Milliseconds(999)).asks.empty());
  EXPECT_EQ(member_.TimePassed(start_ + kModexAskAgain).asks.size(), 1u);
  EXPECT_TRUE(member_.TimePassed(start_ + kModexAskAgain).asks.empty());
  EXPECT_EQ(member_.TimePassed(start_ + 2 * kModexAskAgain).asks.size(), 1u);
}

TEST_F(ModexMemberTest, AllWhoAskAreAnswered) {
  EXPECT_EQ(member_.Take(Note(4, 2)).show, 2u);
  EXPECT_EQ(member_.Take(Note(5, 2)).show, 2u);
  EXPECT_EQ(member_.Take(Note(4, 2)).show, 2u) << "D2: its answer may have been lost";
  const auto notes = member_.Shown(2, std::string("card"));
  ASSERT_EQ(notes.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(notes[i].peer, 4 + i);
    EXPECT_EQ(notes[i].rank, 2u);
    EXPECT_TRUE(notes[i].answers);
    EXPECT_EQ(notes[i].bytes, "card");
    EXPECT_EQ(notes[i].refused, "");
  }
  EXPECT_TRUE(member_.Shown(2, std::string("card")).empty()) << "nobody has asked again";
}

TEST_F(ModexMemberTest, WhyThereIsNothingIsToldToo) {
  member_.Take(Note(4, 2));
  EXPECT_EQ(member_.Shown(2, absl::NotFoundError("nothing")).at(0).refused, "nothing");
  member_.Take(Note(4, 2));
  const auto notes = member_.Shown(2, std::string(kModexBytesMax + 1, 'x'));
  EXPECT_EQ(notes.at(0).bytes, "");
  EXPECT_THAT(notes.at(0).refused, HasSubstr("rank 2 has put more than the 65536 bytes"));
  member_.Take(Note(4, 2));
  EXPECT_EQ(member_.Shown(2, std::string(kModexBytesMax, 'x')).at(0).refused, "");
}

TEST_F(ModexMemberTest, D3SoManyAreSoughtAndNotMore) {
  for (uint32_t rank = 0; rank < kModexSoughtMax; ++rank) {
    EXPECT_TRUE(member_.Seek(1, rank, start_).given_up.empty());
  }
  const auto due = member_.Seek(1, kModexSoughtMax, start_);
  EXPECT_TRUE(due.asks.empty());
  EXPECT_THAT(due.given_up.at(0).bytes.status().message(), HasSubstr("4096 ranks are asked"));
}

TEST_F(ModexMemberTest, ANewRoundBeginsAnew) {
  member_.Seek(3, 12, start_);
  member_.Take(Note(4, 2));
  member_.BeginRound({1, 8});
  EXPECT_FALSE(member_.seeks());
  EXPECT_TRUE(member_.Shown(2, std::string("card")).empty());
}

TEST(ModexQueueTest, WhatFindsNoRoomIsLost) {
  ModexQueue queue;
  for (uint32_t i = 0; i < 200; ++i) {
    queue.Push(Answer(0, i, std::string(kModexBytesMax, 'x')));
  }
  size_t kept = 0;
  for (; !queue.empty(); ++kept) {
    EXPECT_EQ(queue.Pop().rank, kept);
  }
  EXPECT_GT(kept, 100u);
  EXPECT_LE(kept, ModexQueue::kBytesMax / kModexBytesMax);
  queue.Push(Note(0, 1));
  EXPECT_FALSE(queue.empty()) << "there is room again";
  queue.Clear();
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace muster
