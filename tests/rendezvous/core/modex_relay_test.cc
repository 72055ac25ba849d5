#include "rendezvous/core/modex_relay.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

constexpr RoundId kRound = {1, 4};

// Two nodes, 7 and 9 in this order.
RoundState Running() {
  RoundState state;
  state.phase = JobPhase::kRunning;
  state.round = kRound;
  for (const uint32_t id : {7u, 9u}) {
    Member& member = state.members.emplace_back();
    member.node = {id};
    member.incarnation = {10 + id};
    NodeState& node = state.nodes[member.node];
    node.incarnation = member.incarnation;
    node.place = static_cast<int32_t>(state.members.size()) - 1;
  }
  return state;
}

// Of node 7 for node 9.
ModexNote Ask() {
  ModexNote out;
  out.node = {7};
  out.incarnation = {17};
  out.round = kRound;
  out.peer = 1;
  out.rank = 5;
  return out;
}

TEST(ModexRelayTest, GoesToTheOtherNodeAndSaysOfWhom) {
  ModexNote note = Ask();
  note.answers = true;
  note.bytes = "card";
  const auto out = RelayModex(Running(), note);
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->node, NodeId{9});
  EXPECT_EQ(out->incarnation, Incarnation{19});
  EXPECT_EQ(out->peer, 0u);
  EXPECT_EQ(out->rank, 5u);
  EXPECT_TRUE(out->answers);
  EXPECT_EQ(out->bytes, "card");
}

TEST(ModexRelayTest, ForANodeThatIsLostTheAskerHears) {
  RoundState state = Running();
  state.nodes[NodeId{9}].status = NodeStatus::kLost;
  const auto out = RelayModex(state, Ask());
  ASSERT_TRUE(out.has_value());
  EXPECT_EQ(out->node, NodeId{7});
  EXPECT_EQ(out->peer, 1u);
  EXPECT_TRUE(out->answers);
  EXPECT_EQ(out->refused, "node 1, where rank 5 is, is lost");
  ModexNote answer = Ask();
  answer.answers = true;
  EXPECT_FALSE(RelayModex(state, answer).has_value()) << "nobody is there to hear it";
}

TEST(ModexRelayTest, ANewLifeOfANodeIsNoMember) {
  RoundState state = Running();
  state.nodes[NodeId{9}].incarnation = {20};
  EXPECT_EQ(RelayModex(state, Ask())->node, NodeId{7});
  ModexNote note = Ask();
  note.incarnation = {16};
  EXPECT_FALSE(RelayModex(Running(), note).has_value());
}

TEST(ModexRelayTest, WhatIsOfNoRoundWhoseWorkersRunIsDropped) {
  RoundState state = Running();
  state.phase = JobPhase::kStopping;
  EXPECT_TRUE(RelayModex(state, Ask()).has_value()) << "its workers still run";
  state.phase = JobPhase::kGathering;
  EXPECT_FALSE(RelayModex(state, Ask()).has_value());
  ModexNote note = Ask();
  note.round.n = 3;
  EXPECT_FALSE(RelayModex(Running(), note).has_value());
  note = Ask();
  note.peer = 2;
  EXPECT_FALSE(RelayModex(Running(), note).has_value()) << "there is none";
}

}  // namespace
}  // namespace muster
