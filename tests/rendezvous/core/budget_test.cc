#include "rendezvous/core/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace muster {
namespace {

const Origin rank_5 = {Rank{5}, NodeId{2}, "node1"};
const Origin lost_node = {std::nullopt, NodeId{2}, "node1"};

TEST(Budget, ARestartCountsForJobRankAndNode) {
  RestartsUsed used;
  Charge(used, rank_5);
  Charge(used, lost_node);
  EXPECT_EQ(used.job, 2u);
  EXPECT_EQ(used.by_rank, (std::map<Rank, uint32_t>{{Rank{5}, 1}}));
  EXPECT_EQ(used.by_node, (std::map<NodeId, uint32_t>{{NodeId{2}, 2}}));
}

struct Case {
  const char* name;
  uint32_t max;
  std::optional<uint32_t> of_rank;
  std::optional<uint32_t> of_node;
  int charged;  // times, for rank 5 on node1
  const char* want_up;
  const char* want_text;
};

class BudgetTest : public testing::TestWithParam<Case> {};

TEST_P(BudgetTest, SaysWhatIsUsed) {
  const Case& c = GetParam();
  RestartRules rules;
  rules.of_rank = c.of_rank;
  rules.of_node = c.of_node;
  RestartsUsed used;
  for (int i = 0; i < c.charged; ++i) {
    Charge(used, rank_5);
  }
  EXPECT_EQ(UsedUp(rules, c.max, used, rank_5), c.want_up);
  EXPECT_EQ(UsedText(rules, c.max, used, rank_5), c.want_text);
}

INSTANTIATE_TEST_SUITE_P(
    Limits, BudgetTest,
    testing::Values(
        Case{"fresh", 3, {}, {}, 0, "", "0 of 3"}, Case{"one_left", 3, {}, {}, 2, "", "2 of 3"},
        Case{"job", 2, {}, {}, 2, "the job has used all its 2 restarts (--max-restarts)", "2 of 2"},
        Case{"none_at_all", 0, {}, {}, 0, "the job has no restart (--max-restarts 0)", "0 of 0"},
        Case{"rank",
             9,
             1,
             {},
             1,
             "rank 5 has used its 1 restart (--restarts-per-rank)",
             "1 of 9 (rank 5: 1 of 1)"},
        Case{"node", 9, 4, 3, 3, "node1 has used all its 3 restarts (--restarts-per-node)",
             "3 of 9 (rank 5: 3 of 4; node1: 3 of 3)"},
        Case{"rank_has_none",
             9,
             0,
             {},
             0,
             "rank 5 has no restart (--restarts-per-rank 0)",
             "0 of 9 (rank 5: 0 of 0)"}),
    [](const auto& test) { return test.param.name; });

TEST(Budget, ALostNodeIsNoRanksRestart) {
  RestartRules rules;
  rules.of_rank = 0;
  RestartsUsed used;
  EXPECT_EQ(UsedUp(rules, 3, used, lost_node), "");
  EXPECT_EQ(UsedText(rules, 3, used, lost_node), "0 of 3");
}

TEST(Budget, WaitsGrowFromTheSecondShortRoundOn) {
  const RestartRules rules;
  EXPECT_EQ(WaitBeforeRestart(rules, 0, 1), absl::ZeroDuration());
  EXPECT_EQ(WaitBeforeRestart(rules, 1, 1), absl::ZeroDuration());
  const int seconds[] = {1, 2, 4, 8, 16, 30, 30};
  for (uint32_t rounds = 2; rounds < 9; ++rounds) {
    const absl::Duration middle = absl::Seconds(seconds[rounds - 2]);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const absl::Duration wait = WaitBeforeRestart(rules, rounds, seed);
      EXPECT_GE(wait, middle * 0.8 - absl::Milliseconds(1)) << rounds;
      EXPECT_LE(wait, std::min(middle * 1.2, rules.wait_max)) << rounds;
      EXPECT_EQ(wait, absl::Floor(wait, absl::Milliseconds(1)));
      EXPECT_EQ(wait, WaitBeforeRestart(rules, rounds, seed));
    }
  }
  EXPECT_LE(WaitBeforeRestart(rules, 4000000000u, 1), rules.wait_max);
}

TEST(Budget, JobsThatFailTogetherComeBackApart) {
  std::set<absl::Duration> waits;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    waits.insert(WaitBeforeRestart(RestartRules(), 3, seed));
  }
  EXPECT_GT(waits.size(), 50u);
}

TEST(Budget, ZeroNeverWaits) {
  RestartRules rules;
  rules.wait_first = absl::ZeroDuration();
  EXPECT_EQ(WaitBeforeRestart(rules, 9, 1), absl::ZeroDuration());
}

}  // namespace
}  // namespace muster
