#include "rendezvous/core/policy.h"

#include <gtest/gtest.h>

#include <csignal>

namespace muster {
namespace {

ExitRecord Ended(ExitKind kind, int32_t code, bool oom = false) {
  ExitRecord record;
  record.node = NodeId{1};
  record.hostname = "node0";
  record.exit.kind = kind;
  record.exit.code = code;
  record.exit.oom_killed = oom;
  return record;
}

RoundConfig Config(std::vector<ExitRule> rules, uint32_t restarts_max = 1) {
  RoundConfig config;
  config.restarts_max = restarts_max;
  config.rules.on_exit = std::move(rules);
  return config;
}

Verdict After(const RoundConfig& config, const ExitRecord& worker) {
  return Judge(config, RoundState(), {worker.node, &worker});
}

TEST(Policy, P1TheFirstRuleThatFitsDecides) {
  const RoundConfig config = Config({{ExitMatch::kOom, {}, ExitAction::kStop},
                                     {ExitMatch::kSignal, {SIGKILL}, ExitAction::kReplaceNode},
                                     {ExitMatch::kCode, {3, 75}, ExitAction::kRestartFree},
                                     {ExitMatch::kCode, {75}, ExitAction::kStop},
                                     {ExitMatch::kNodeLost, {}, ExitAction::kStop}});
  EXPECT_EQ(After(config, Ended(ExitKind::kSignaled, SIGKILL, true)).rule, "oom:stop");
  EXPECT_EQ(After(config, Ended(ExitKind::kSignaled, SIGKILL)).rule, "signal=SIGKILL:replace-node");
  EXPECT_EQ(After(config, Ended(ExitKind::kExited, 75)).rule, "code=3,75:restart-free");
  EXPECT_EQ(After(config, Ended(ExitKind::kExited, 75)).action, ExitAction::kRestartFree);
  EXPECT_EQ(Judge(config, RoundState(), {NodeId{1}}).rule, "node-lost:stop");
  // Code 9 is no signal 9, and signal 3 no code 3.
  for (const ExitRecord& other :
       {Ended(ExitKind::kExited, SIGKILL), Ended(ExitKind::kSignaled, 3)}) {
    EXPECT_EQ(After(config, other).rule, "");
    EXPECT_EQ(After(config, other).action, ExitAction::kRestart);
    EXPECT_EQ(After(config, other).why_not, "");
  }
}

TEST(Policy, P2SaysWhyThereIsNoRestart) {
  const ExitRecord worker = Ended(ExitKind::kExited, 3);
  EXPECT_EQ(After(Config({{ExitMatch::kCode, {3}, ExitAction::kStop}}), worker).why_not,
            "--on-exit code=3:stop");
  EXPECT_EQ(After(Config({{ExitMatch::kCode, {3}, ExitAction::kRestart}}, 0), worker).why_not,
            "the job has no restart (--max-restarts 0)");
  RoundConfig config = Config({{ExitMatch::kCode, {3}, ExitAction::kRestartFree}}, 0);
  EXPECT_EQ(After(config, worker).why_not, "");
  RoundState worn;
  worn.report.restarts = kRestartsMax;
  EXPECT_EQ(Judge(config, worn, {NodeId{1}, &worker}).why_not,
            "a job is started again at most 1000000 times");
  config.restart = RestartMode::kNever;
  EXPECT_EQ(After(config, worker).why_not, "--restart=never");
}

TEST(Policy, ARestartMayFollowAsLongAsABudgetOrAFreeRuleIsThere) {
  RoundState state;
  EXPECT_FALSE(MayEverRestart(Config({}, 0), state));
  EXPECT_TRUE(MayEverRestart(Config({}, 1), state));
  EXPECT_FALSE(MayEverRestart(Config({{ExitMatch::kOom, {}, ExitAction::kReplaceNode}}, 0), state));
  EXPECT_TRUE(MayEverRestart(Config({{ExitMatch::kOom, {}, ExitAction::kRestartFree}}, 0), state));
  state.used.job = 1;
  EXPECT_FALSE(MayEverRestart(Config({}, 1), state));
  RoundConfig never = Config({}, 9);
  never.restart = RestartMode::kNever;
  EXPECT_FALSE(MayEverRestart(never, state));
}

TEST(Policy, P3OnlyWhereTheOthersAreEnough) {
  const absl::Time now = absl::UnixEpoch();
  RoundConfig config;
  config.nodes_min = 2;
  RoundState state;
  state.gathering_since = now;
  for (const uint32_t id : {1u, 2u, 3u}) {
    state.nodes[NodeId{id}];
    state.ready.insert(NodeId{id});
  }
  state.live = 3;
  state.set_aside[NodeId{2}] = {now + absl::Seconds(5), ""};
  EXPECT_TRUE(IsLeftOut(config, state, NodeId{2}, now));
  EXPECT_FALSE(IsLeftOut(config, state, NodeId{1}, now));
  EXPECT_EQ(ReadyCount(config, state, now), 2u);
  EXPECT_EQ(LiveCount(config, state, now), 2u);
  EXPECT_FALSE(IsLeftOut(config, state, NodeId{2}, now + absl::Seconds(5)));  // its time is over
  EXPECT_FALSE(IsLeftOut(config, state, NodeId{2}, now + config.join_timeout));
  config.nodes_min = 3;
  EXPECT_FALSE(IsLeftOut(config, state, NodeId{2}, now));
  EXPECT_EQ(ReadyCount(config, state, now), 3u);
  EXPECT_EQ(LiveCount(config, state, now), 3u);
}

}  // namespace
}  // namespace muster
