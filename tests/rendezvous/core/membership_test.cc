#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/round_machine.h"

namespace muster {
namespace {

// A job of one or two nodes: one stays, the others come under names of their own, run, and go.
class Membership : public testing::Test {
 protected:
  Membership() {
    config_.nodes_max = 2;
    config_.last_call = absl::ZeroDuration();
    config_.journal = true;
    config_.lease = absl::Hours(10);
    stays_ = Add(1);
    Until(1);
  }
  NodeId Add(uint64_t life) {
    Join join;
    join.key = join.hostname = absl::StrCat("node", life);
    join.address = "10.0.0.1";
    join.life = life;
    join.workers = 1;
    join.store_port = 4000;
    Do(JoinReceived{{life}, std::move(join)});
    const NodeId id = state_.by_key.at(absl::StrCat("node", life));
    Beat& beat = beats_[id] = Beat();
    beat.node = id;
    beat.incarnation = state_.nodes.at(id).incarnation;
    beat.store_port = 4000;
    return id;
  }
  void Go(NodeId id) {
    beats_.erase(id);
    Do(LeaveReceived{{id, state_.nodes.at(id).incarnation, "its time is over"}});
  }
  // All beat, and do as they are told, until a round of so many nodes runs.
  void Until(size_t nodes) {
    for (int i = 0; i < 100; ++i) {
      for (auto& [id, beat] : beats_) {
        ++beat.seq;
        Do(BeatReceived{beat});
      }
      if (state_.phase == JobPhase::kRunning && state_.members.size() == nodes) {
        return;
      }
    }
    FAIL() << "no round of " << nodes << " nodes";
  }
  void Do(const RoundEvent& event) {
    now_ += absl::Seconds(1);
    for (const RoundEffect& effect : Step(config_, state_, event, now_)) {
      if (const auto* persist = std::get_if<Persist>(&effect); persist != nullptr) {
        others_ =
            persist->record.round.has_value() ? persist->record.round->others.size() : others_;
      } else if (const auto* send = std::get_if<Send>(&effect); send != nullptr) {
        Obey(send->directive);
      }
    }
  }
  void Obey(const Directive& directive) {
    const auto it = beats_.find(directive.node);
    if (it == beats_.end()) {
      return;
    }
    Beat& beat = it->second;
    if (directive.wanted == Wanted::kRun && beat.round != directive.round) {
      beat.round = directive.round;
      beat.phase = AgentPhase::kRunning;
      beat.workers_alive = beat.workers_started = 1;
      beat.exits.clear();
    } else if (directive.wanted == Wanted::kStop && beat.phase == AgentPhase::kRunning) {
      beat.phase = AgentPhase::kReady;
      beat.workers_alive = 0;
      WorkerExit exit;
      exit.rank = state_.members[static_cast<size_t>(state_.nodes.at(beat.node).place)].rank_first;
      exit.kind = ExitKind::kSignaled;
      exit.code = 15;
      exit.stopped_by_us = true;
      beat.exits = {exit};
    }
  }

  RoundConfig config_;
  RoundState state_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::map<NodeId, Beat> beats_;
  NodeId stays_;
  size_t others_ = 0;  // in the last round that the journal was given
};

TEST_F(Membership, OfNodesThatHaveGoneTheLastOnesAreKnown) {
  NodeId last;
  for (uint64_t life = 2; life <= 200; ++life) {
    last = Add(life);
    Until(2);
    Go(last);
    Until(1);
    ASSERT_FALSE(HasFatalFailure()) << life;
  }
  EXPECT_LE(others_, 70u);
  EXPECT_GE(others_, 64u);
  EXPECT_LE(state_.nodes.size(), 72u);
  EXPECT_EQ(state_.by_key.size(), state_.nodes.size());
  EXPECT_EQ(state_.by_life.size(), state_.nodes.size());
  EXPECT_EQ(Add(1000 + 200), NodeId{201});
  EXPECT_EQ(state_.by_key.at("node200"), last);
  EXPECT_EQ(state_.by_key.count("node2"), 0u);
  EXPECT_EQ(state_.by_key.at("node1"), stays_);
}

}  // namespace
}  // namespace muster
