#include "rendezvous/core/job_line.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr absl::Time kNow = absl::FromUnixSeconds(1000);

RoundState OfNodes(uint32_t count) {
  RoundState state;
  state.begun = state.gathering_since = kNow - absl::Seconds(90);
  state.round = {3, 2};
  state.round_began = kNow - absl::Seconds(70);
  state.world_size = 4 * count;
  for (uint32_t i = 0; i < count; ++i) {
    const NodeId id{i + 1};
    state.nodes[id].join.hostname = "node" + std::to_string(i);
    Member member;
    member.node = id;
    member.workers = 4;
    state.members.push_back(member);
  }
  return state;
}

TEST(JobLine, OfEachPhase) {
  RoundConfig config;
  config.nodes_min = config.nodes_max = 2;
  RoundState state = OfNodes(2);
  state.phase = JobPhase::kGathering;
  EXPECT_EQ(JobLine(config, state, kNow).substr(0, 24), "waiting for 2 of 2 nodes");
  state.phase = JobPhase::kRunning;
  EXPECT_EQ(JobLine(config, state, kNow),
            "round 3.2 for 70.0 s: 8 workers on 2 nodes (node0, node1)");
  state.report.restarts = 1;
  state.paused = true;
  EXPECT_EQ(JobLine(config, state, kNow),
            "round 3.2, paused, for 70.0 s: 8 workers on 2 nodes (node0, node1); 1 restart");
  state.paused = false;
  state.phase = JobPhase::kStopping;
  state.stop_reason = StopReason::kUser;
  state.stop_began = kNow - absl::Seconds(2);
  state.lost_headline = "stopped by the user (SIGINT)";
  EXPECT_EQ(JobLine(config, state, kNow),
            "round 3.2 is being stopped for 2.0 s: stopped by the user (SIGINT); 8 workers on 2 "
            "nodes (node0, node1); 1 restart");
  state.phase = JobPhase::kEnded;
  state.report.exit_code = 130;
  state.report.headline = "stopped by the user (SIGINT)";
  EXPECT_EQ(JobLine(config, state, kNow), "ends with 130: stopped by the user (SIGINT)");
}

TEST(JobLine, NamesAFewNodesAndKnowsThatOneMayBeForgotten) {
  RoundState state = OfNodes(12);
  state.phase = JobPhase::kRunning;
  state.nodes.erase(NodeId{2});
  EXPECT_EQ(JobLine({}, state, kNow),
            "round 3.2 for 70.0 s: 48 workers on 12 nodes (node0, ?, node2, node3, node4, "
            "node5, node6, node7, and 4 more)");
}

}  // namespace
}  // namespace muster
