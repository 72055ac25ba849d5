// Agents that are broken, or mean harm, do not harm the master, nor what its journal is worth.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/replay.h"
#include "rendezvous/core/round_machine.h"
#include "tests/rendezvous/core/kept_journal.h"

namespace muster {
namespace {

// A master, and what its agents say.
class HostileAgents : public testing::Test {
 protected:
  HostileAgents() {
    config_.nodes_min = config_.nodes_max = 2;
    config_.restarts_max = 5;
    config_.journal = true;
    config_.lease = absl::Seconds(5);
    config_.last_call = absl::ZeroDuration();
  }
  void Step(const RoundEvent& event) {
    for (RoundEffect& effect : muster::Step(config_, state_, event, now_)) {
      if (auto* persist = std::get_if<Persist>(&effect)) {
        KeepInJournal(std::move(persist->record), journal_);
      } else if (const auto* reply = std::get_if<Reply>(&effect)) {
        if (const auto* admitted = std::get_if<Admitted>(&reply->message)) {
          admitted_[admitted->life] = *admitted;
        } else if (const auto* refused = std::get_if<Refused>(&reply->message)) {
          refused_.push_back(refused->reason);
        }
      }
    }
  }
  static Join JoinOf(uint64_t life, uint32_t workers) {
    Join join;
    join.key = absl::StrCat("k", life);
    join.life = life;
    join.hostname = absl::StrCat("h", life);
    join.address = absl::StrCat("10.0.0.", life);
    join.workers = workers;
    join.store_port = 1000;
    return join;
  }
  void Enter(uint64_t life, uint32_t workers) { Step(JoinReceived{{life}, JoinOf(life, workers)}); }
  void Say(uint64_t life, AgentPhase phase, std::vector<WorkerExit> exits, uint32_t from = 0) {
    Beat beat;
    beat.node = admitted_[life].node;
    beat.incarnation = admitted_[life].incarnation;
    beat.seq = ++beats_;
    beat.phase = phase;
    beat.round = state_.round;
    beat.store_port = 1000;
    beat.exits_from = from;
    beat.exits = std::move(exits);
    Step(BeatReceived{std::move(beat)});
  }
  void Go(uint64_t life) {
    Step(LeaveReceived{Leave{admitted_[life].node, admitted_[life].incarnation, "bye"}});
  }
  static WorkerExit Exit(uint32_t rank, int32_t code) {
    WorkerExit exit;
    exit.rank = Rank{rank};
    exit.kind = ExitKind::kExited;
    exit.code = code;
    return exit;
  }
  // The next master has what the journal was given.
  void TakeOver() {
    state_ = RoundState();
    for (const JournalRecord& record : journal_) {
      const absl::Status replayed = Replay(config_, state_, record);
      ASSERT_TRUE(replayed.ok()) << replayed;
    }
    ++config_.epoch;
    Resurrect(config_, state_, now_);
  }

  RoundConfig config_;
  RoundState state_;
  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(1000);
  std::vector<JournalRecord> journal_;
  std::map<uint64_t, Admitted> admitted_;
  std::vector<std::string> refused_;
  uint64_t beats_ = 0;
};

TEST_F(HostileAgents, ARankEndsOnce) {
  config_.restart = RestartMode::kOne;
  config_.on_failure = OnFailure::kContinue;
  config_.rules.on_exit = {{ExitMatch::kCode, {7}, ExitAction::kStop}};
  Enter(1, 3);
  Enter(2, 1);
  Say(1, AgentPhase::kRunning, {});
  Say(2, AgentPhase::kRunning, {});
  const uint32_t rank = state_.members[0].rank_first.value;
  Say(1, AgentPhase::kRunning, {Exit(rank, 7)});
  Say(1, AgentPhase::kRunning, {Exit(rank, 0)}, 1);
  Say(1, AgentPhase::kRunning, {Exit(rank, 7)}, 2);
  EXPECT_EQ(state_.finished, 0u);
  EXPECT_EQ(state_.report.exits.size(), 1u);
  const NodeState& node = state_.nodes.at(admitted_[1].node);
  EXPECT_EQ(node.exits_ok, 0u);
  EXPECT_EQ(node.exits_failed, 1u);
  EXPECT_EQ(node.exits_seen, 3u) << "it need not say them again";
  Go(1);
  Enter(3, 3);  // takes the place, and the next round has no record of who had it
  EXPECT_EQ(state_.round.n, 2u);
  TakeOver();
  EXPECT_EQ(state_.members[0].node, admitted_[3].node);
}

TEST_F(HostileAgents, OneThatWasStoppedIsToldOfOnce) {
  Enter(1, 2);
  Enter(2, 1);
  Say(1, AgentPhase::kRunning, {Exit(0, 3)});
  WorkerExit stopped = Exit(1, 15);
  stopped.kind = ExitKind::kSignaled;
  stopped.stopped_by_us = true;
  Say(1, AgentPhase::kStopping, {stopped, stopped, stopped}, 1);
  EXPECT_EQ(state_.report.exits.size(), 2u);
}

TEST_F(HostileAgents, ALifeStaysAsItWasLetIn) {
  Enter(1, 2);
  const NodeId node = admitted_[1].node;
  Join other = JoinOf(1, 40);
  other.node_rank = 1;
  other.ranks.assign(40, 7);
  other.worker_ports.assign(40, 5);
  other.address = "10.0.0.9";
  Step(JoinReceived{{1}, other});
  const Join& kept = state_.nodes.at(node).join;
  EXPECT_EQ(kept.workers, 2u);
  EXPECT_EQ(kept.node_rank, -1);
  EXPECT_TRUE(kept.ranks.empty());
  EXPECT_TRUE(kept.worker_ports.empty());
  EXPECT_EQ(kept.address, "10.0.0.9") << "by which others reach it, as it is now";
  Step(JoinReceived{{1}, JoinOf(1, 0)});
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0], "--nproc-per-node: want 1..4096, got 0 on h1");
}

// Between the loss of a node and its consequences there may be another master.
TEST_F(HostileAgents, ALossIsChargedToTheNodeThatWasLost) {
  config_.rules.bad_node_after = 1;
  for (const uint64_t life : {1u, 2u, 3u}) {
    Enter(life, 1);
  }
  Say(1, AgentPhase::kRunning, {});
  Say(2, AgentPhase::kRunning, {});
  const NodeId lost = admitted_[1].node;
  Go(1);
  ASSERT_EQ(state_.phase, JobPhase::kStopping);
  TakeOver();
  Enter(3, 1);  // one that is in no round is not kept
  WorkerExit stopped = Exit(1, 15);
  stopped.kind = ExitKind::kSignaled;
  stopped.stopped_by_us = true;
  Say(2, AgentPhase::kReady, {stopped});
  EXPECT_EQ(state_.used.by_node, (std::map<NodeId, uint32_t>{{lost, 1}}));
  EXPECT_EQ(state_.set_aside.count(lost), 1u);
  ASSERT_EQ(state_.report.history.size(), 1u);
  EXPECT_EQ(state_.report.history[0].find("lost as well"), std::string::npos);
}

}  // namespace
}  // namespace muster
