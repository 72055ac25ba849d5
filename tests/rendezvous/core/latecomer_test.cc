#include "rendezvous/core/latecomer.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace muster {
namespace {

struct Scene {
  RoundConfig config;
  RoundState state;
  Join join;
};

// A job of 1 to 3 nodes that two have ended, node1 and node2; node4 was lost before. node3 comes.
Scene Late() {
  Scene out;
  out.config.nodes_min = 1;
  out.config.nodes_max = 3;
  RoundState& s = out.state;
  s.phase = JobPhase::kEnded;
  s.report.ended = true;
  s.round = {1, 2};
  s.agreed = {{{"--nnodes", "1:3"}}, "node1"};
  for (const uint32_t id : {1U, 2U, 4U}) {
    NodeState& node = s.nodes[NodeId{id}];
    node.join.hostname = "node" + std::to_string(id);
    node.ended = id != 4;
    node.status = id == 4 ? NodeStatus::kLost : NodeStatus::kLeft;
    if (id != 4) {
      Member& member = s.members.emplace_back();
      member.node = NodeId{id};
    }
  }
  out.join.hostname = "node3";
  out.join.must_agree = s.agreed.options;
  return out;
}

struct Case {
  const char* name;
  bool late;
  std::function<void(Scene&)> change;
};

class Latecomer : public testing::TestWithParam<Case> {};

TEST_P(Latecomer, IsOfTheJobThatEndedOrOfTheNext) {
  Scene scene = Late();
  GetParam().change(scene);
  EXPECT_EQ(ComesTooLate(scene.config, scene.state, scene.join), GetParam().late);
}

INSTANTIATE_TEST_SUITE_P(
    All, Latecomer,
    testing::Values(
        Case{"of_a_new_machine", true, [](Scene&) {}},
        Case{"lost_before", true, [](Scene& s) { s.join.hostname = "node4"; }},
        Case{"typed_again", false, [](Scene& s) { s.join.hostname = "node2"; }},
        // As a master finds it that has taken the job over: nothing tells who has heard of the end.
        Case{"typed_again_after_a_takeover", false,
             [](Scene& s) {
               s.join.hostname = "node2";
               s.state.nodes[NodeId{2}].ended = false;
             }},
        Case{"left_before", true,
             [](Scene& s) {
               s.join.hostname = "node4";
               s.state.nodes[NodeId{4}].status = NodeStatus::kLeft;
             }},
        Case{"it_failed", false, [](Scene& s) { s.state.report.exit_code = 3; }},
        Case{"it_still_runs", false, [](Scene& s) { s.state.phase = JobPhase::kRunning; }},
        Case{"other_options", false, [](Scene& s) { s.join.must_agree[0].second = "1:4"; }},
        Case{"not_elastic", false, [](Scene& s) { s.config.nodes_min = s.config.nodes_max = 2; }},
        Case{"full", false, [](Scene& s) { s.config.nodes_max = 2; }},
        Case{"no_round", false, [](Scene& s) { s.state.round = {}; }}),
    [](const testing::TestParamInfo<Case>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace muster
