#include "rendezvous/core/stop_told.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(GraceLeftTest, AStopThatGoesOnGetsNoMoreTime) {
  const absl::Time begun = absl::UnixEpoch();
  RoundState state;
  EXPECT_EQ(GraceLeft(state, absl::Seconds(30), begun), absl::Seconds(30));
  state.phase = JobPhase::kStopping;
  state.stop_began = begun;
  state.stop_grace = absl::Seconds(20);
  EXPECT_EQ(GraceLeft(state, absl::Seconds(30), begun), absl::Seconds(20));
  EXPECT_EQ(GraceLeft(state, absl::Seconds(30), begun + absl::Seconds(5)), absl::Seconds(15));
  EXPECT_EQ(GraceLeft(state, absl::Seconds(4), begun + absl::Seconds(5)), absl::Seconds(4));
  EXPECT_EQ(GraceLeft(state, absl::Seconds(30), begun + absl::Seconds(25)), absl::ZeroDuration());
}

TEST(WorkersLeftTest, OfNodesThatAreThere) {
  RoundState state;
  NodeState node;
  node.workers_alive = 3;
  node.status = NodeStatus::kAlive;
  state.nodes[NodeId{1}] = node;
  node.status = NodeStatus::kSuspect;
  state.nodes[NodeId{2}] = node;
  node.status = NodeStatus::kLost;
  state.nodes[NodeId{3}] = node;
  EXPECT_EQ(WorkersLeft(state), 6u);
}

}  // namespace
}  // namespace muster
