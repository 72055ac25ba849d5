// Agents that say anything at all, by chance: the master lives on, and what its journal has been
// given makes the same job.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
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

constexpr uint64_t kSeeds = 100;
constexpr int kSteps = 250;

struct Agent {
  Join join;
  bool admitted = false;
  NodeId node;
  Incarnation incarnation;
  uint64_t beats = 0;
  RoundId round;  // that it says it holds
};

// A job of which agents say what they like.
class RandomJob {
 public:
  RandomJob(uint64_t seed, bool hostile) : random_(seed), hostile_(hostile) {
    config_.nodes_min = 1 + Below(2);
    config_.nodes_max = config_.nodes_min + Below(3);
    config_.restart = OneIn(2) ? RestartMode::kOne : RestartMode::kAll;
    config_.on_failure = OneIn(2) ? OnFailure::kContinue : OnFailure::kStop;
    config_.restarts_max = Below(6);
    config_.journal = true;
    config_.lease = absl::Seconds(5);
    config_.last_call = absl::Seconds(Below(3));
    config_.join_timeout = absl::Seconds(30);
    config_.rules.bad_node_after = Below(3);
    if (OneIn(3)) {
      config_.rules.on_exit = {
          {ExitMatch::kCode, {7}, OneIn(2) ? ExitAction::kStop : ExitAction::kReplaceNode}};
    }
  }

  void StepOnce() {
    now_ += absl::Milliseconds(OneIn(5) ? Below(3000) : Below(200));
    if (agents_.size() < 3 || OneIn(40)) {
      Join join = AnyJoin(agents_.size() + 1);
      agents_.emplace_back().join = std::move(join);
      return Feed(JoinReceived{{agents_.size()}, agents_.back().join});
    }
    Agent& agent = agents_[Below(static_cast<uint32_t>(agents_.size()))];
    const uint32_t what = Below(100);
    if (what < 4) {
      const uint64_t life = agent.join.life;
      Feed(JoinReceived{{life}, hostile_ && OneIn(2) ? AnyJoin(life) : agent.join});
    } else if (what < 80 && agent.admitted) {
      Feed(BeatReceived{AnyBeat(agent)});
    } else if (what < 84 && agent.admitted) {
      Feed(LinkClosed{agent.node, agent.incarnation});
    } else if (what < 86 && agent.admitted) {
      Feed(LeaveReceived{Leave{agent.node, agent.incarnation, "bye"}});
    } else if (what < 90) {
      FeedUser(what);
    } else if (what == 90) {
      TakeOver();
    } else {
      Feed(TimePassed{});
    }
  }

  // What the next master would know.
  RoundState Replayed() const {
    RoundState state;
    for (const JournalRecord& record : journal_) {
      const absl::Status replayed = Replay(config_, state, record);
      EXPECT_TRUE(replayed.ok()) << replayed;
    }
    return state;
  }
  const RoundState& state() const { return state_; }
  bool journaled() const { return !journal_.empty(); }

 private:
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  bool OneIn(uint32_t n) { return Below(n) == 0; }

  Join AnyJoin(uint64_t life) {
    Join join;
    join.key_is_exact = OneIn(3);
    join.key = join.key_is_exact ? absl::StrCat("p", Below(4)) : absl::StrCat("k", Below(6));
    join.node_rank = join.key_is_exact ? static_cast<int32_t>(Below(4)) : -1;
    join.life = life;
    join.hostname = absl::StrCat("h", Below(6));
    join.address = absl::StrCat("10.0.0.", Below(6));
    join.workers = hostile_ && OneIn(4) ? Below(5) : 1 + Below(3);
    join.store_port = 1000;
    for (uint32_t i = 0; hostile_ && OneIn(8) && i < join.workers; ++i) {
      join.ranks.push_back(Below(8));
    }
    return join;
  }
  WorkerExit AnyExit() {
    WorkerExit exit;
    exit.rank = Rank{Below(std::max(1u, state_.world_size) + (hostile_ ? 1 : 0))};
    exit.kind = static_cast<ExitKind>(Below(3));
    exit.code = OneIn(3) ? 7 : static_cast<int32_t>(Below(2));
    exit.stopped_by_us = OneIn(5) && (hostile_ || exit.kind == ExitKind::kSignaled);
    if (OneIn(4)) {
      exit.because_of = Rank{Below(hostile_ ? 100 : std::max(1u, state_.world_size))};
    }
    return exit;
  }
  Beat AnyBeat(Agent& agent) {
    Beat beat;
    beat.node = agent.node;
    beat.incarnation = agent.incarnation;
    beat.seq = ++agent.beats;
    beat.phase = OneIn(3) ? static_cast<AgentPhase>(Below(3)) : AgentPhase::kRunning;
    beat.phase = state_.phase == JobPhase::kGathering ? AgentPhase::kReady : beat.phase;
    if (hostile_ && OneIn(5)) {
      agent.round = {Below(3), Below(4)};
    } else if (!OneIn(5)) {
      agent.round = state_.round;
    }
    beat.round = agent.round;
    beat.store_port = 1000;
    beat.workers_alive = Below(4);
    const auto node = state_.nodes.find(agent.node);
    beat.exits_from = node == state_.nodes.end() ? 0 : node->second.exits_seen;
    if (hostile_ && OneIn(5)) {
      beat.exits_from = Below(4);
    }
    for (uint32_t left = OneIn(4) ? Below(3) : 0; left > 0; --left) {
      beat.exits.push_back(AnyExit());
    }
    beat.leaves = OneIn(60) ? 15 : 0;
    beat.restart_asked = OneIn(80) ? state_.round : RoundId();
    return beat;
  }
  void FeedUser(uint32_t what) {
    if (what == 86 && OneIn(4)) {
      Feed(PauseAsked{OneIn(2)});
    } else if (what == 87 && OneIn(9)) {
      Feed(StopAsked{15, false});
    } else if (what == 88) {
      Feed(SignalAsked{10});
    } else {
      Feed(NewsForUser{"news"});
    }
  }
  void Feed(const RoundEvent& event) {
    for (RoundEffect& effect : Step(config_, state_, event, now_)) {
      if (auto* persist = std::get_if<Persist>(&effect)) {
        KeepInJournal(std::move(persist->record), journal_);
      } else if (const auto* reply = std::get_if<Reply>(&effect)) {
        if (const auto* admitted = std::get_if<Admitted>(&reply->message)) {
          Agent& agent = agents_[admitted->life - 1];
          agent.admitted = true;
          agent.node = admitted->node;
          agent.incarnation = admitted->incarnation;
        }
      }
    }
  }
  void TakeOver() {
    if (journal_.empty()) {
      return;
    }
    state_ = Replayed();
    ++config_.epoch;
    Resurrect(config_, state_, now_);
    Feed(TimePassed{});
  }

  std::mt19937_64 random_;  // the same on every machine, unlike what is drawn by distributions
  const bool hostile_;
  RoundConfig config_;
  RoundState state_;
  absl::Time now_ = absl::UnixEpoch() + absl::Seconds(1000);
  std::vector<JournalRecord> journal_;
  std::vector<Agent> agents_;  // by life, from 1 on
};

std::vector<uint32_t> RanksOf(const std::vector<ExitRecord>& exits) {
  std::vector<uint32_t> ranks;
  ranks.reserve(exits.size());
  for (const ExitRecord& record : exits) {
    ranks.push_back(record.exit.rank.value);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string FirstUnlike(const std::vector<std::pair<const char*, bool>>& same) {
  for (const auto& [name, equal] : same) {
    if (!equal) {
      return name;
    }
  }
  return "";
}

// The first thing that the next master would not know; "" = none. Every field of the state is named
// here: one that is new is to be compared, or to be among those that do not outlive a master. (Of
// `blamed` the next one knows a little more: what exits say that the round before has left.)
std::string Forgotten(const RoundState& one, const RoundState& other) {
  const auto& [phase, round, members, world_size, unstarted, nodes, by_key, by_life, by_wish,
               expiries, contenders, refused, live, awaited, ready, ended, told, finished, chain,
               started_in, next, lost_in_place, paid_for, blamed, unlike_told, tell_idle,
               idle_round, idle_looked, failures_told, pending, start_failed, comebacks,
               comebacks_due, coming, node_ids, incarnations, begun, gathering_since, restarting,
               last_call_at, round_began, grow_at, lived, used, short_rounds, last_restart,
               failures, set_aside, stop_signal, stop_grace, stop_is_final, stop_reason, stop_began,
               user_signo, user_grace, lost_id, lost_hostname, lost_headline, signals, drills,
               paused, paused_since, agreed, master_addr, master_port, one_host, layout,
               ranks_by_node, note, note_made, note_stale, next_tell, timer_at, stepped_at,
               stood_still, stood_still_tells, stood_still_from, journaled, lost_nodes_journaled,
               report] = one;
  const bool over = phase == JobPhase::kEnding || phase == JobPhase::kEnded;
  const bool runs = phase == JobPhase::kRunning || phase == JobPhase::kStopping;
  const std::vector<std::pair<const char*, bool>> same = {
      {"phase", phase == other.phase || (over && other.report.ended)},
      {"round", round == other.round},
      {"world_size", world_size == other.world_size},
      {"members",
       std::equal(members.begin(), members.end(), other.members.begin(), other.members.end(),
                  [](const Member& a, const Member& b) {
                    return a.node == b.node && a.incarnation == b.incarnation &&
                           a.rank_first == b.rank_first && a.workers == b.workers &&
                           a.ranks == b.ranks && a.port == b.port && a.since == b.since;
                  })},
      {"ended", !runs || ended == other.ended},
      {"told", !runs || told == other.told},
      {"finished", !runs || finished == other.finished},
      {"chain", chain == other.chain},
      {"started_in", !runs || started_in == other.started_in},
      {"next.ranks", next.ranks == other.next.ranks},
      {"next.vacant", next.vacant.size() == other.next.vacant.size()},
      {"next.restarts", next.restarts == other.next.restarts},
      {"next.lines", next.lines == other.next.lines},
      {"next.used_before", next.used_before == other.next.used_before},
      {"paid_for", paid_for == other.paid_for},
      {"begun", begun == other.begun},
      {"round_began", round_began == other.round_began},
      {"lived", lived == other.lived},
      {"used", used == other.used},
      {"short_rounds", short_rounds == other.short_rounds},
      {"last_restart", last_restart.not_before == other.last_restart.not_before &&
                           last_restart.text == other.last_restart.text},
      {"failures", failures == other.failures},
      {"set_aside", set_aside == other.set_aside},
      {"stop", stop_signal == other.stop_signal && stop_grace == other.stop_grace &&
                   stop_is_final == other.stop_is_final && stop_reason == other.stop_reason},
      {"stop_began", phase != JobPhase::kStopping || stop_began == other.stop_began},
      {"user_signo", user_signo == other.user_signo},
      {"lost_id", lost_id == other.lost_id},
      {"lost_node", lost_hostname == other.lost_node},
      {"lost_headline", lost_headline == other.lost_headline},
      {"signals", signals == other.signals},
      {"paused", paused == other.paused && (!paused || paused_since == other.paused_since)},
      {"agreed", agreed == other.agreed || members.empty()},
      {"master_addr", !runs || (master_addr == other.master_addr &&
                                master_port == other.master_port && one_host == other.one_host)},
      {"layout", layout == other.layout && ranks_by_node == other.ranks_by_node},
      {"report",
       report.ended == other.report.ended && report.exit_code == other.report.exit_code &&
           report.headline == other.report.headline && report.cause == other.report.cause &&
           report.lost_node == other.report.lost_node && report.restarts == other.report.restarts &&
           report.regroupings == other.report.regroupings &&
           report.history == other.report.history},
      {"report.exits", !runs || RanksOf(report.exits) == RanksOf(other.report.exits)},
      {"report.lost_nodes", report.lost_nodes == other.report.lost_nodes}};
  return FirstUnlike(same);
}

void Play(bool hostile) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    RandomJob job(seed, hostile);
    for (int step = 0; step < kSteps; ++step) {
      job.StepOnce();
      // Of who says that it goes back to an older round, a master may have heard what the next one
      // has not.
      const std::string forgotten = Forgotten(job.state(), job.Replayed());
      if (job.journaled() && !hostile) {
        ASSERT_EQ(forgotten, "") << "seed " << seed << " step " << step;
      }
    }
  }
}

TEST(RandomAgents, TheJournalHasAllThatTheNextMasterNeeds) { Play(/*hostile=*/false); }
TEST(RandomAgents, AlsoOfAgentsThatMeanHarm) { Play(/*hostile=*/true); }

}  // namespace
}  // namespace muster
