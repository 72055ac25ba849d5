#include "worker_sdk/algorithm/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "worker_sdk/algorithm/schedule.h"

namespace muster {
namespace {

// What all ranks read from the smallest of their votes.
std::string Agreed(const std::vector<Settings>& by_rank) {
  SettingsVote smallest = VoteOf(by_rank[0], 0);
  for (uint32_t rank = 1; rank < by_rank.size(); ++rank) {
    const SettingsVote vote = VoteOf(by_rank[rank], rank);
    smallest.least = std::min(smallest.least, vote.least);
    smallest.most = std::min(smallest.most, vote.most);
  }
  return CheckVotes(smallest).ToString();
}

TEST(Agreement, OneSettingForAll) {
  for (const Wire wire : {Wire::kFull, Wire::kBFloat16}) {
    for (const bool check : {false, true}) {
      EXPECT_EQ(Agreed({{wire, check}}), "OK");
      EXPECT_EQ(Agreed(std::vector<Settings>(1000, {wire, check})), "OK");
    }
  }
}

TEST(Agreement, TheLowestRankOfEachSideIsNamed) {
  const Settings plain;
  const Settings narrow{Wire::kBFloat16, false};
  const Settings checked{Wire::kFull, true};
  const std::string disagree = "FAILED_PRECONDITION: ranks disagree on how to work together: ";
  const std::string advice = ": give all the same (launch -x NAME=VALUE)";
  EXPECT_EQ(Agreed({narrow, plain, narrow}),
            disagree +
                "rank 1 has MUSTER_WIRE=full MUSTER_CHECK=off, rank 0 has MUSTER_WIRE=bf16 "
                "MUSTER_CHECK=off" +
                advice);
  EXPECT_EQ(Agreed({plain, plain, checked, checked}),
            disagree +
                "rank 0 has MUSTER_WIRE=full MUSTER_CHECK=off, rank 2 has MUSTER_WIRE=full "
                "MUSTER_CHECK=crc" +
                advice);
}

TEST(Agreement, TwoVersionsOfSchedulesAreNamed) {
  const Settings plain;
  const Settings newer{Wire::kBFloat16, false, kScheduleVersion + 1};
  EXPECT_EQ(Agreed({newer, newer}), "OK");
  EXPECT_EQ(Agreed({newer, plain, newer}),
            "FAILED_PRECONDITION: ranks have different libmusters: schedules are of version " +
                std::to_string(kScheduleVersion) + " on rank 1, of version " +
                std::to_string(kScheduleVersion + 1) +
                " on rank 0: install the same one on all nodes");
}

TEST(Agreement, HalfTheCoresCarryAtMostEightAndNoMoreThanTheSmallestNodeHas) {
  const Layout layout({16, 3}, [] {
    std::vector<uint32_t> ranks(19);
    for (uint32_t i = 0; i < 19; ++i) {
      ranks[i] = i;
    }
    return ranks;
  }());
  EXPECT_EQ(CarriersFor(layout, 64), 3U);
  EXPECT_EQ(CarriersFor(layout, 4), 2U);
  EXPECT_EQ(CarriersFor(layout, 1), 1U);
  EXPECT_EQ(CarriersFor(Layout::OneNode(64), 64), 8U);
}

TEST(Agreement, MoreIsSentAheadTheLongerAMessageTakes) {
  constexpr uint64_t kSlot = 256u << 10;
  EXPECT_EQ(AheadFor(-5, kSlot), 1U);
  EXPECT_EQ(AheadFor(0, kSlot), 1U);
  EXPECT_EQ(AheadFor(60, kSlot), 1U);
  EXPECT_EQ(AheadFor(10'000, kSlot), 10U);
  EXPECT_EQ(AheadFor(10'000, kSlot / 4), kAheadMax);
  EXPECT_EQ(AheadFor(int64_t{3'600'000'000}, kSlot), kAheadMax);
}

// What all ranks read from the smallest of their votes.
std::string AgreedStanding(const std::vector<Standing>& by_rank) {
  StandingVote smallest = VoteOf(by_rank[0], 0);
  for (uint32_t rank = 1; rank < by_rank.size(); ++rank) {
    const StandingVote vote = VoteOf(by_rank[rank], rank);
    for (size_t i = 0; i < vote.size(); ++i) {
      smallest[i] = std::min(smallest[i], vote[i]);
    }
  }
  const muster::Agreed agreed = AgreedOf(smallest);
  return "completed " + std::to_string(agreed.completed) + " started " +
         std::to_string(agreed.started) + " committed " + std::to_string(agreed.committed) + ".." +
         std::to_string(agreed.committed_last) + " holder " + std::to_string(agreed.holder);
}

TEST(Agreement, WhereTheProgramStands) {
  constexpr bool kNew = false;
  EXPECT_EQ(AgreedStanding({{}, {}}), "completed 0 started 0 committed -1..-1 holder 0");
  EXPECT_EQ(AgreedStanding({{true, 7, 7, 4}, {true, 6, 8, 5}}),
            "completed 6 started 8 committed 4..5 holder 0");
  EXPECT_EQ(AgreedStanding({{kNew}, {true, 6, 7, 0}, {true, 7, 7, 1}}),
            "completed 6 started 7 committed 0..1 holder 1");
  EXPECT_EQ(AgreedStanding({{true, 6, 7, -1}, {true, 7, 7, 1}}),
            "completed 6 started 7 committed -1..1 holder 0");
  // One that died again before it was given the state: its numbers only grow.
  EXPECT_EQ(AgreedStanding({{kNew, 6, 9, 3}, {true, 6, 8, 4}}),
            "completed 6 started 9 committed 4..4 holder 1");
  EXPECT_EQ(AgreedStanding({{kNew, 6, 9, 3}, {kNew}}),
            "completed 9 started 9 committed -1..-1 holder -1");
}

}  // namespace
}  // namespace muster
