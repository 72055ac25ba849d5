#include "rendezvous/core/invariants.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "rendezvous/core/invariants_impl.h"

namespace muster {
namespace {

// Where nodes ask for ranks of their own, they have all of the world's, each once.
absl::Status CheckAskedRanks(const RoundState& state) {
  std::set<uint32_t> asked;
  size_t count = 0;
  for (const Member& member : state.members) {
    asked.insert(member.ranks.begin(), member.ranks.end());
    count += member.ranks.size();
    if (!member.ranks.empty() && member.ranks.size() != member.workers) {
      return Broken("I1", "node ", member.node.value, " has ", member.ranks.size(), " ranks for ",
                    member.workers, " workers");
    }
  }
  const bool whole = count == state.world_size && asked.size() == count &&
                     (asked.empty() || *asked.rbegin() == count - 1);
  if (count != 0 && !whole) {
    return Broken("I1", "of ", state.world_size, " ranks ", asked.size(), " are asked for");
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(const RoundState& state) {
  uint32_t next = 0;
  std::set<NodeId> seen;
  for (const Member& member : state.members) {
    if (member.rank_first.value != next || member.workers == 0) {
      return Broken("I1", "node ", member.node.value, " has ranks from ", member.rank_first.value,
                    ", want from ", next);
    }
    if (!seen.insert(member.node).second) {
      return Broken("I1", "node ", member.node.value, " is in the round twice");
    }
    next += member.workers;
  }
  RETURN_IF_ERROR(CheckAskedRanks(state));
  if (next != state.world_size) {
    return Broken("I1", "ranks end at ", next, ", the world is ", state.world_size);
  }
  return absl::OkStatus();
}

// I10
absl::Status CheckExits(const RoundState& state) {
  std::set<Rank> ranks;
  for (const ExitRecord& record : state.report.exits) {
    if (!ranks.insert(record.exit.rank).second) {
      return Broken("I10", "the exit of rank ", record.exit.rank.value, " is in the report twice");
    }
  }
  for (const auto& [id, node] : state.nodes) {
    if (node.exits_ok + node.exits_failed > node.join.workers) {
      return Broken("I10", "node ", id.value, " has told of more exits than it has workers");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSets(const RoundState& state) {
  uint32_t live = 0;
  for (const auto& [id, node] : state.nodes) {
    live += node.IsLive() ? 1 : 0;
    const size_t entries = state.expiries.count({node.watched, id});
    if (entries != (node.IsLive() ? 1u : 0u) || (node.IsLive() && node.watched > node.expires)) {
      return Broken("L1", "node ", id.value, " has ", entries, " entries among the expiries");
    }
    if (node.place >= 0) {
      const auto place = static_cast<size_t>(node.place);
      if (place >= state.members.size() || state.members[place].node != id) {
        return Broken("I1", "node ", id.value, " is not at its place ", place);
      }
    }
  }
  uint32_t coming = 0;
  for (const auto& [key, comeback] : state.comebacks) {
    coming += comeback.awaited ? 1 : 0;
    const bool is_due = comeback.due != absl::InfiniteFuture();
    if (state.comebacks_due.count({comeback.due, key}) != (is_due ? 1u : 0u)) {
      return Broken("I9", "the start of '", key, "' is ", is_due ? "not " : "", "in the queue");
    }
  }
  if (coming != state.coming) {
    return Broken("I9", coming, " nodes are to come back, counted ", state.coming);
  }
  if (live != state.live || live != state.expiries.size()) {
    return Broken("L1", live, " nodes are live, counted ", state.live, ", watched ",
                  state.expiries.size());
  }
  return absl::OkStatus();
}

// Where a node takes connections stays what it was when the round began.
absl::Status CheckPeers(const RoundState& state, const std::vector<Member>& members,
                        const std::vector<PeerNode>& peers) {
  for (const PeerNode& peer : peers) {
    const size_t place = peer.node_rank.value;
    if (place >= members.size() || peer.port == 0 || peer.port != members[place].port ||
        peer.address != state.nodes.at(members[place].node).join.address) {
      return Broken("I2", "node rank ", place, " is said to be at ", peer.address, ":", peer.port);
    }
  }
  return absl::OkStatus();
}

// I4, when the job ends.
absl::Status CheckLastLoss(const RoundConfig& config, const RoundState& state) {
  const bool may_go = config.nodes_min < config.nodes_max || config.spares.value_or(0) > 0;
  const bool never_ran = std::any_of(
      state.report.exits.begin(), state.report.exits.end(),
      [](const ExitRecord& record) { return record.exit.kind == ExitKind::kSpawnFailed; });
  const bool all = config.on_failure == OnFailure::kStop && config.restart == RestartMode::kAll;
  const bool ruled =
      std::any_of(config.rules.on_exit.begin(), config.rules.on_exit.end(),
                  [](const ExitRule& rule) { return rule.match == ExitMatch::kNodeLost; });
  if (may_go && all && !ruled && !never_ran && state.report.cause == CauseKind::kNodeLost &&
      state.live >= config.nodes_min) {
    return Broken("I4", "a lost node ends the job, but ", state.live, " nodes are left");
  }
  return absl::OkStatus();
}

// I4
absl::Status CheckBudgets(const RoundConfig& config, const RoundState& state) {
  const RestartRules& rules = config.rules;
  const RestartsUsed& used = state.used;
  if (used.job > config.restarts_max) {
    return Broken("I4", used.job, " restarts count of ", state.report.restarts, ", allowed are ",
                  config.restarts_max);
  }
  for (const auto& [rank, restarts] : used.by_rank) {
    if (restarts > rules.of_rank.value_or(config.restarts_max)) {
      return Broken("I4", restarts, " restarts count for rank ", rank.value);
    }
  }
  for (const auto& [node, restarts] : used.by_node) {
    if (restarts > rules.of_node.value_or(config.restarts_max)) {
      return Broken("I4", restarts, " restarts count for node ", node.value);
    }
  }
  return absl::OkStatus();
}

// I7
absl::Status CheckGoingOn(const RoundConfig& config, const RoundState& state) {
  const auto never_ran = [](const ExitRecord& record) {
    return record.exit.kind == ExitKind::kSpawnFailed;
  };
  const bool by_failure =
      state.stop_reason == StopReason::kWorker ||
      (state.stop_reason == StopReason::kNode && config.restart != RestartMode::kOne);
  if (config.on_failure == OnFailure::kContinue && state.phase == JobPhase::kStopping &&
      by_failure && state.stop_is_final &&
      std::none_of(state.report.exits.begin(), state.report.exits.end(), never_ran)) {
    return Broken("I7", "a failure ends round ", state.round.ToString(),
                  ", but the others were to go on");
  }
  const bool ended_by_itself = state.report.ended && state.stop_reason == StopReason::kNone &&
                               state.report.cause != CauseKind::kUser &&
                               state.report.cause != CauseKind::kTimeout &&
                               state.report.cause != CauseKind::kNeverFormed;
  if (ended_by_itself &&
      std::find(state.ended.begin(), state.ended.end(), false) != state.ended.end()) {
    return Broken("I7", "the job has ended, but not each of its workers");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckState(const RoundConfig& config, const RoundState& state) {
  RETURN_IF_ERROR(CheckRanks(state));
  RETURN_IF_ERROR(CheckSets(state));
  RETURN_IF_ERROR(CheckExits(state));
  RETURN_IF_ERROR(CheckGoingOn(config, state));
  RETURN_IF_ERROR(CheckBudgets(config, state));
  if (state.phase == JobPhase::kRunning &&
      (state.members.size() < config.nodes_min || state.members.size() > config.nodes_max)) {
    return Broken("I6", state.members.size(), " nodes run, want ", config.nodes_min, "..",
                  config.nodes_max);
  }
  const bool ended = state.phase == JobPhase::kEnding || state.phase == JobPhase::kEnded;
  if (ended != state.report.ended) {
    return Broken("I5", "the report is ", state.report.ended ? "" : "not ", "final");
  }
  if (state.phase == JobPhase::kStopping && state.pending.empty()) {
    return Broken("progress", "the stop of round ", state.round.ToString(),
                  " goes on though nobody is awaited");
  }
  return absl::OkStatus();
}

absl::Status InvariantChecker::Check(const RoundState& state,
                                     const std::vector<RoundEffect>& effects, bool whole) {
  if (whole) {
    RETURN_IF_ERROR(CheckState(config_, state));
  }
  for (const RoundEffect& effect : effects) {
    if (const auto* started = std::get_if<RoundStarted>(&effect)) {
      RETURN_IF_ERROR(CheckRoundStarted(state, *started));
    } else if (const auto* reply = std::get_if<Reply>(&effect)) {
      if (const auto* admitted = std::get_if<Admitted>(&reply->message)) {
        in_a_row_.erase(state.nodes.at(admitted->node).join.key);
      }
    } else if (const auto* again = std::get_if<StartAgain>(&effect)) {
      RETURN_IF_ERROR(CheckStartAgain(state, *again));
    } else if (const auto* send = std::get_if<Send>(&effect)) {
      RETURN_IF_ERROR(CheckSend(state, *send));
    } else if (std::holds_alternative<JobEnded>(effect)) {
      if (ended_ || !state.report.ended) {
        return Broken("I5", "the job ended twice, or without a report");
      }
      ended_ = true;
    }
  }
  RETURN_IF_ERROR(CheckGrowth(state));
  if (state.round != last_) {
    return Broken("I2", "round ", state.round.ToString(), " was not announced");
  }
  return whole ? CheckReport(state) : absl::OkStatus();
}

absl::Status InvariantChecker::TakenOver(const RoundState& state) {
  const bool refilled = config_.rules.window > absl::ZeroDuration() && state.used == RestartsUsed();
  const bool same_round = state.phase == JobPhase::kRunning && state.round == last_ &&
                          state.next.IsNone();  // what is to be replaced has been charged
  if (same_round && !refilled && state.used != used_) {
    return Broken("I4", "the next master knows of ", state.used.job, " restarts that count, not ",
                  used_.job, ", or of another rank's or node's");
  }
  rounds_.erase(rounds_.upper_bound(state.round), rounds_.end());
  last_ = state.round;
  phase_ = state.phase;
  restarts_ = state.report.restarts;
  used_ = state.used;
  used_.job -= std::min(used_.job, state.next.restarts);  // its round is yet to come
  used_is_after_end_ = state.phase == JobPhase::kGathering;
  short_rounds_ = state.short_rounds;
  counted_ = state.report.restarts + state.report.regroupings;
  counted_ -= state.phase == JobPhase::kGathering && !state.round.IsNone() ? 1 : 0;
  if (!state.report.ended) {
    named_.clear();
  }
  ended_ = state.phase == JobPhase::kEnded;
  return absl::OkStatus();
}

absl::Status InvariantChecker::CheckRoundStarted(const RoundState& state,
                                                 const RoundStarted& started) {
  if (started.round <= last_) {
    return Broken("I2", "round ", started.round.ToString(), " follows ", last_.ToString());
  }
  const uint32_t counted = state.report.restarts + state.report.regroupings;
  if (state.chain != state.round) {
    RETURN_IF_ERROR(CheckKept(state));
  } else if (!last_.IsNone() && counted != counted_ + 1) {
    return Broken("I4", "round ", started.round.ToString(), " follows another, but ", counted,
                  " are counted after ", counted_);
  }
  counted_ = counted;
  if (!last_.IsNone() && config_.rules.window > absl::ZeroDuration() &&
      state.lived >= config_.rules.window && !used_is_after_end_) {
    used_ = RestartsUsed();
  }
  used_is_after_end_ = false;
  if (config_.restart == RestartMode::kOne) {
    used_ = state.used;
  } else if (state.report.restarts != restarts_) {
    RETURN_IF_ERROR(CheckRestart(state));
  }
  RETURN_IF_ERROR(CheckSetAside(state));
  restarts_ = state.report.restarts;
  last_ = started.round;
  rounds_[last_] = state.members;
  for (const Member& member : state.members) {
    if (member.since != state.round) {
      continue;  // it is kept, whatever its node is doing
    }
    const NodeState& node = state.nodes.at(member.node);
    if (node.incarnation != member.incarnation || node.status != NodeStatus::kAlive) {
      return Broken("I6", "node ", member.node.value, " of the round is not alive");
    }
    if (node.phase != AgentPhase::kReady) {
      return Broken("I6", "node ", member.node.value, " of the round is not ready");
    }
  }
  return absl::OkStatus();
}

// I9
absl::Status InvariantChecker::CheckStartAgain(const RoundState& state, const StartAgain& again) {
  const auto node = state.by_key.find(again.key);
  const bool is_live = node != state.by_key.end() && state.nodes.at(node->second).IsLive();
  const bool is_next = again.attempt > std::exchange(attempts_[again.key], again.attempt);
  const bool is_too_many =
      ++in_a_row_[again.key] > kStartsAgainMax + (config_.machines_return ? again.failed : 0);
  if (!config_.starts_again || state.report.ended || is_live || !is_next || is_too_many) {
    return Broken("I9", "attempt ", again.attempt, " to start '", again.key, "' again: ",
                  is_live       ? "it is there"
                  : !is_next    ? "it is not a later one"
                  : is_too_many ? "there were too many"
                                : "nobody can, or the job has ended");
  }
  return absl::OkStatus();
}

// I8
absl::Status InvariantChecker::CheckGrowth(const RoundState& state) {
  const bool begins = state.phase == JobPhase::kStopping && phase_ != JobPhase::kStopping &&
                      state.stop_reason == StopReason::kGrowth;
  phase_ = state.phase;
  const bool early = state.stop_began - state.round_began < kGrowthEvery;
  if (begins && (early || state.finished != 0 || config_.restart != RestartMode::kAll ||
                 config_.on_failure != OnFailure::kStop)) {
    return Broken("I8", "round ", state.round.ToString(), " is stopped for a newcomer ",
                  early ? "too early" : "though its workers end");
  }
  return absl::OkStatus();
}

// I12
absl::Status InvariantChecker::CheckSetAside(const RoundState& state) const {
  if (state.chain != state.round) {
    return absl::OkStatus();  // it keeps the others, and takes whoever fills their gaps (P4)
  }
  size_t others = 0;
  std::set<NodeId> aside;
  for (const auto& [id, node] : state.nodes) {
    const auto it = state.set_aside.find(id);
    if (it != state.set_aside.end() && it->second.until > state.round_began) {
      aside.insert(id);
    } else {
      others += node.IsLive() ? 1 : 0;
    }
  }
  const bool in_time = state.round_began < state.gathering_since + config_.join_timeout;
  for (const Member& member : state.members) {
    if (aside.count(member.node) != 0 && others >= config_.nodes_min && in_time) {
      return Broken("I12", "node ", member.node.value, " is set aside, ", others,
                    " others are there, and round ", state.round.ToString(), " takes it");
    }
  }
  return absl::OkStatus();
}

absl::Status InvariantChecker::CheckSend(const RoundState& state, const Send& send) {
  const auto node = state.nodes.find(send.node);
  if (node == state.nodes.end() || node->second.incarnation != send.incarnation ||
      send.directive.incarnation != send.incarnation || send.directive.node != send.node) {
    return Broken("I3", "a directive for incarnation ", send.incarnation.value, " of node ",
                  send.node.value, ", which is not the present one");
  }
  if (send.directive.wanted != Wanted::kRun) {
    return absl::OkStatus();
  }
  const auto round = rounds_.find(send.directive.round);
  if (round == rounds_.end()) {
    return Broken("I2", "a directive for round ", send.directive.round.ToString(),
                  ", which never started");
  }
  RETURN_IF_ERROR(CheckPeers(state, round->second, send.directive.peers));
  const Assignment& a = send.directive.assignment;
  if (a.round.IsNone()) {
    return absl::OkStatus();
  }
  const bool in_round = a.node_rank.value < round->second.size();
  const uint16_t port = in_round ? round->second[a.node_rank.value].port : uint16_t{0};
  const RoundId since = in_round ? round->second[a.node_rank.value].since : RoundId();
  const Member mine{send.node, send.incarnation, a.rank_first, a.workers, a.ranks, port, since};
  if (a.round != send.directive.round || !in_round ||
      !Same(round->second[a.node_rank.value], mine)) {
    return Broken("I2", "node ", send.node.value, " is told another place in round ",
                  a.round.ToString(), " than it had at first");
  }
  return absl::OkStatus();
}

absl::Status InvariantChecker::CheckReport(const RoundState& state) {
  if (!rounds_.empty() && !std::equal(state.members.begin(), state.members.end(),
                                      rounds_[last_].begin(), rounds_[last_].end(), Same)) {
    return Broken("I2", "the members of round ", last_.ToString(), " changed");
  }
  if (!state.report.ended) {
    return absl::OkStatus();
  }
  const std::string now = absl::StrCat(state.report.exit_code, " ", state.report.headline);
  if (named_.empty()) {
    named_ = now;
    RETURN_IF_ERROR(CheckLastLoss(config_, state));
  }
  if (named_ != now) {
    return Broken("I5", "the report said '", named_, "' and now says '", now, "'");
  }
  const std::optional<ExitRecord>& first = state.report.first;
  if (state.report.cause == CauseKind::kWorker &&
      (!first.has_value() || first->exit.ExitCode() != state.report.exit_code)) {
    return Broken("I5", "exit code ", state.report.exit_code, " is not the first cause's");
  }
  return absl::OkStatus();
}

}  // namespace muster
