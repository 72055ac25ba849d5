#include "worker_sdk/algorithm/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RankCard On(const char* host, uint32_t pid) {
  RankCard out;
  out.pid = pid;
  std::snprintf(out.host, sizeof(out.host), "%s", host);
  return out;
}

RankCard InJob(const char* job, uint32_t rank, uint32_t node) {
  RankCard out = On("a", rank);
  out.launched = 1;
  out.rank = rank;
  out.node = node;
  std::snprintf(out.job, sizeof(out.job), "%s", job);
  return out;
}

Roster Of(std::vector<RankCard> cards) { return {7, std::move(cards)}; }

TEST(RosterTest, TravelsAsText) {
  const Roster sent = Of({On("a", 1), InJob("job", 3, 1)});
  StatusOr<Roster> got = ReadRoster(sent.Text(), 2);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->number, 7u);
  ASSERT_EQ(got->cards.size(), 2u);
  EXPECT_STREQ(got->cards[0].host, "a");
  EXPECT_EQ(got->cards[1].rank, 3u);
}

TEST(RosterTest, WhatIsOfAnotherBuildIsRefused) {
  RankCard newer = On("a", 1);
  ++newer.version;
  for (const std::string& text : {TextOf(newer), TextOf(On("a", 1)) + "more", std::string()}) {
    StatusOr<RankCard> got = ReadCard(text, 4);
    EXPECT_EQ(got.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(got.status().message(), HasSubstr("rank 4"));
  }
  EXPECT_EQ(ReadRoster(Of({On("a", 1), newer}).Text(), 2).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadRoster(Of({On("a", 1)}).Text(), 2).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST(RosterTest, WhoSharesAHostIsOnANode) {
  const Roster all = Of({On("b", 1), On("a", 1), On("b", 2)});
  EXPECT_FALSE(IsOfOneJob(all));
  const SplitGroup group = GroupOf(all, 2);
  EXPECT_EQ(group.rank, 2u);
  ASSERT_EQ(group.layout.nodes(), 2u);
  EXPECT_THAT(group.layout.RanksOf(0), ElementsAre(0, 2));
  EXPECT_THAT(group.layout.RanksOf(1), ElementsAre(1));
  EXPECT_EQ(group.layout.NameOf(2), "rank 2");
}

TEST(RosterTest, WorkersOfOneJobAreWhereItSays) {
  const Roster all = Of({InJob("job", 5, 2), InJob("job", 0, 0), InJob("job", 4, 2)});
  EXPECT_TRUE(IsOfOneJob(all));
  const SplitGroup group = GroupOf(all, 0);
  ASSERT_EQ(group.layout.nodes(), 2u);
  EXPECT_THAT(group.layout.RanksOf(0), ElementsAre(1));
  EXPECT_THAT(group.layout.RanksOf(1), ElementsAre(0, 2));
  EXPECT_EQ(group.layout.NameOf(0), "rank 0 (5 of the job)");
}

TEST(RosterTest, OtherJobsRoundsAndProcessesAreNotOfOneJob) {
  EXPECT_FALSE(IsOfOneJob(Of({InJob("job", 0, 0), InJob("another", 1, 0)})));
  EXPECT_FALSE(IsOfOneJob(Of({InJob("job", 0, 0), On("a", 9)})));
  RankCard child = InJob("job", 1, 0);
  child.pid = 9;
  EXPECT_FALSE(IsOfOneJob(Of({InJob("job", 1, 0), child}))) << "of one worker";
  RankCard later = InJob("job", 1, 0);
  later.round = 2;
  EXPECT_FALSE(IsOfOneJob(Of({InJob("job", 0, 0), later})));
}

TEST(RosterTest, AProcessThatIsThereTwiceIsNamed) {
  EXPECT_TRUE(CheckAllDiffer(Of({On("a", 1), On("b", 1), On("a", 2)})).ok());
  const Status twice = CheckAllDiffer(Of({On("a", 1), On("b", 1), On("a", 1)}));
  EXPECT_EQ(twice.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(twice.message(), HasSubstr("ranks 0 and 2"));
}

}  // namespace
}  // namespace muster
