// Ranks that nodes ask for, and several programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "proto/base/limits.h"
#include "proto/wire/convert.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Two of four workers, on the first of two nodes.
Directive HalfTheWorld() {
  Directive directive;
  directive.wanted = Wanted::kRun;
  directive.assignment.round = {1, 1};
  directive.assignment.nodes = 2;
  directive.assignment.world_size = 4;
  directive.assignment.workers = 2;
  return directive;
}

TEST(Convert, AnAssignmentThatDoesNotFitIsRefused) {
  Directive directive = HalfTheWorld();
  directive.assignment.rank_first.value = 2;
  EXPECT_TRUE(FromWire(ToWire(MasterMessage(directive))).ok());
  directive.assignment.rank_first.value = 3;  // ranks 3 and 4 of 0..3
  EXPECT_FALSE(FromWire(ToWire(MasterMessage(directive))).ok());
  directive.assignment.rank_first.value = 0;
  directive.assignment.node_rank.value = 2;
  EXPECT_FALSE(FromWire(ToWire(MasterMessage(directive))).ok());
}

TEST(Convert, RanksAreThoseOfAllWorkersOrOfNone) {
  Directive directive = HalfTheWorld();
  const auto status = [&](std::vector<uint32_t> ranks) {
    directive.assignment.ranks = std::move(ranks);
    return std::string(FromWire(ToWire(MasterMessage(directive))).status().message());
  };
  EXPECT_EQ(status({3, 0}), "");
  EXPECT_EQ(directive.assignment.RankOf(LocalRank{1}), Rank{0});
  EXPECT_THAT(status({3}), HasSubstr("assignment.ranks: want 2..2, got 1"));
  EXPECT_THAT(status({3, 4}), HasSubstr("assignment.ranks: want 0..3, got 4"));
}

TEST(Convert, EachOfSeveralProgramsBeginsBehindTheOneBefore) {
  AgentBootstrap bootstrap;
  bootstrap.terms.nodes_max = 1;
  const auto status = [&](uint32_t first, uint32_t second) {
    bootstrap.plan.further = {{first, {"a"}, "", {}}, {second, {"b"}, "", {}}};
    return std::string(FromWire(ToWire(bootstrap)).status().message());
  };
  EXPECT_EQ(status(1, 2), "");
  EXPECT_THAT(status(0, 2), HasSubstr("plan.further.rank_first: want 1.."));
  EXPECT_THAT(status(2, 2), HasSubstr("plan.further.rank_first: want 3.."));
  bootstrap.plan.further.assign(kProgramsMax, {1, {"a"}, "", {}});
  EXPECT_THAT(std::string(FromWire(ToWire(bootstrap)).status().message()),
              HasSubstr("plan.further: want 0..1023, got 1024"));
}

}  // namespace
}  // namespace muster
