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
  directive.assignment.layout = {{2, 2}};
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
  directive.assignment.ranks_by_node = {3, 0, 2, 1};
  EXPECT_EQ(status({3, 0}), "");
  EXPECT_EQ(directive.assignment.RankOf(LocalRank{1}), Rank{0});
  EXPECT_THAT(status({3}), HasSubstr("assignment.ranks: want 2..2, got 1"));
  EXPECT_THAT(status({3, 4}), HasSubstr("assignment.ranks: want 0..3, got 4"));
}

TEST(Convert, WorkersAreKeptFromAnEarlierRoundAndAllAreAccountedFor) {
  Directive directive = HalfTheWorld();
  directive.assignment.round = {1, 3};
  const auto status = [&](RoundId keeps_from, std::vector<uint32_t> started_in) {
    directive.assignment.keeps_from = keeps_from;
    directive.assignment.started_in = std::move(started_in);
    return std::string(FromWire(ToWire(MasterMessage(directive))).status().message());
  };
  EXPECT_EQ(status({}, {}), "");
  EXPECT_EQ(status({}, {3, 3}), "");
  EXPECT_EQ(status({1, 2}, {0, 3}), "");
  EXPECT_THAT(status({1, 3}, {3, 3}),
              HasSubstr("assignment.keeps_from: want a round before 1.3, got 1.3"));
  EXPECT_THAT(status({1, 2}, {}), HasSubstr("started_in (workers): want 2..2, got 0"));
  EXPECT_THAT(status({}, {3}), HasSubstr("started_in (workers): want 2..2, got 1"));
  EXPECT_THAT(status({1, 2}, {2, 4}), HasSubstr("assignment.started_in: want 0..3, got 4"));
}

TEST(Convert, RanksOfAllNodesAreEachOnceAndAgreeWithThisNodes) {
  Directive directive = HalfTheWorld();
  const auto status = [&](uint32_t node, std::vector<uint32_t> ranks, std::vector<uint32_t> all) {
    directive.assignment.node_rank.value = node;
    directive.assignment.ranks = std::move(ranks);
    directive.assignment.ranks_by_node = std::move(all);
    const auto got = FromWire(ToWire(MasterMessage(directive)));
    if (got.ok()) {
      EXPECT_EQ(std::get<Directive>(*got).assignment, directive.assignment);
    }
    return std::string(got.status().message());
  };
  EXPECT_EQ(status(0, {3, 0}, {3, 0, 2, 1}), "");
  EXPECT_EQ(status(1, {2, 1}, {3, 0, 2, 1}), "");
  EXPECT_EQ(status(1, {}, {}), "");
  EXPECT_THAT(status(0, {2, 1}, {3, 0, 2, 1}), HasSubstr("this node has others"));
  EXPECT_THAT(status(1, {3, 0}, {3, 0, 2, 1}), HasSubstr("this node has others"));
  EXPECT_THAT(status(0, {3, 0}, {3, 0, 2, 3}), HasSubstr("want each of 0..3 once, got 3"));
  EXPECT_THAT(status(0, {3, 0}, {3, 0, 2, 4}), HasSubstr("once, got 4"));
  EXPECT_THAT(status(0, {3, 0}, {3, 0, 2}), HasSubstr("ranks_by_node: want 4..4, got 3"));
  EXPECT_THAT(status(0, {3, 0}, {}), HasSubstr("ranks_by_node: want 4..4, got 0"));
  EXPECT_THAT(status(0, {}, {3, 0, 2, 1}), HasSubstr("ranks_by_node: want 0..0, got 4"));
}

TEST(Convert, ALargestWorldWithRanksOfItsOwnFitsIntoAMessage) {
  Directive directive = HalfTheWorld();
  Assignment& a = directive.assignment;
  a.nodes = kNodesMax;
  a.world_size = kWorldSizeMax;
  a.workers = 63;
  a.layout.clear();
  for (uint32_t node = 0; node < kNodesMax; ++node) {
    a.layout.emplace_back(node % 2 == 0 ? 63 : 65, 1);
  }
  for (uint32_t rank = kWorldSizeMax; rank > 0; --rank) {
    a.ranks_by_node.push_back(rank - 1);
  }
  a.ranks.assign(a.ranks_by_node.begin(), a.ranks_by_node.begin() + a.workers);
  const v1::MasterFrame frame = ToWire(MasterMessage(directive));
  EXPECT_LT(frame.ByteSizeLong(), kMessageBytesMax);
  EXPECT_TRUE(FromWire(frame).ok());
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
