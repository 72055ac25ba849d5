#include "rendezvous/core/replay.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/mutation.h"
#include "proto/base/status_macros.h"
#include "rendezvous/core/cause.h"
#include "rendezvous/core/liveness.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

// The lives that the master before may have admitted since it wrote the round: none of them is
// given to another process.
constexpr uint64_t kLivesSkipped = uint64_t{1} << 20;

NodeState& AddNode(RoundState& s, const DurableNode& kept) {
  NodeState& node = s.nodes[kept.node];
  node.join = kept.join;
  node.incarnation = kept.incarnation;
  node.store_port = kept.store_port;
  node.rank_kept = kept.rank_kept;
  node.phase = AgentPhase::kStopping;  // until it beats
  s.by_key[kept.join.key] = kept.node;
  s.by_life[kept.join.life] = kept.node;
  if (kept.join.node_rank >= 0) {
    s.by_wish[kept.join.node_rank] = kept.node;
  }
  return node;
}

absl::Status CheckRound(const DurableRound& kept) {
  uint64_t world = 0;
  std::set<NodeId> seen;
  for (const DurableNode& member : kept.members) {
    world += member.join.workers;
    if (member.join.workers == 0 || !seen.insert(member.node).second) {
      return absl::InvalidArgumentError(absl::StrCat("node ", member.node.value, " of round ",
                                                     kept.round.ToString(), " is not a member"));
    }
  }
  if (kept.round.IsNone() || world == 0 || world > kWorldSizeMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("round ", kept.round.ToString(), " has ", world, " workers"));
  }
  const bool knows_all = kept.started_in.empty() || kept.started_in.size() == world;
  if (kept.chain.IsNone() || kept.chain > kept.round || !knows_all) {
    return absl::InvalidArgumentError(absl::StrCat(
        "round ", kept.round.ToString(), " keeps workers of round ", kept.chain.ToString()));
  }
  return absl::OkStatus();
}

void ReplayRound(Machine& m, const DurableRound& kept) {
  RoundState& s = m.state;
  s = RoundState();
  s.round = kept.round;
  s.node_ids = kept.node_ids;
  s.incarnations = kept.incarnations + kLivesSkipped;
  s.agreed = kept.agreed;
  for (const DurableNode& other : kept.others) {
    AddNode(s, other).status = NodeStatus::kLost;
  }
  std::vector<NodeId> order;
  for (const DurableNode& member : kept.members) {
    AddNode(s, member).round = kept.round;
    order.push_back(member.node);
  }
  SetMembers(m, order);
  s.chain = kept.chain;
  s.started_in = kept.started_in;
  s.ended.assign(s.world_size, false);
  s.told.assign(s.world_size, false);
  for (size_t rank = 0; rank < s.started_in.size(); ++rank) {
    s.ended[rank] = s.told[rank] = s.started_in[rank] == 0;
    s.finished += s.ended[rank] ? 1 : 0;
  }
  for (size_t i = 0; i < order.size(); ++i) {
    s.members[i].since = kept.members[i].since;
    NodeState& node = s.nodes.at(order[i]);
    node.signals_before = kept.members[i].signals_before;
    node.exits_seen = kept.members[i].exits_before;
    node.exits_ok = EndedWell(s, node);
  }
}

absl::Status ReplayExits(Machine& m, const Beat& beat) {
  const auto it = m.state.nodes.find(beat.node);
  if (it == m.state.nodes.end() || beat.round != m.state.round) {
    return absl::InvalidArgumentError(absl::StrCat("exits of node ", beat.node.value, " in round ",
                                                   beat.round.ToString(), ", which it is not in"));
  }
  RetakeExits(m, beat.node, it->second, beat);
  if (Mutated(Mutation::kReplayKeepsNoExits)) {
    it->second.exits_seen = 0;
  }
  return absl::OkStatus();
}

absl::Status ReplayLoss(RoundState& s, const DurableLoss& loss) {
  const auto it = s.nodes.find(loss.node);
  if (it == s.nodes.end()) {
    return absl::InvalidArgumentError(absl::StrCat("the loss of node ", loss.node.value,
                                                   ", which round ", s.round.ToString(),
                                                   " does not have"));
  }
  it->second.status = loss.left ? NodeStatus::kLeft : NodeStatus::kLost;
  it->second.lost_why = loss.why;
  return absl::OkStatus();
}

void ReplayLostNode(RoundState& s, const LostNode& lost) {
  s.report.lost_nodes.push_back(lost);
  for (const uint32_t rank : lost.ranks) {
    if (rank < s.ended.size()) {
      s.ended[rank] = true;
    }
  }
}

void ReplayReplacement(RoundState& s, const DurableReplacement& kept) {
  s.next = Replacement();
  for (const uint32_t rank : kept.ranks) {
    if (rank < s.world_size) {
      s.next.ranks.insert(rank);
    }
  }
  s.next.restarts = kept.restarts;
  s.next.lines = kept.lines;
  s.next.used_before = kept.used_before;
  for (const auto& [place, headline] : kept.vacant) {
    if (place >= s.members.size()) {
      continue;
    }
    const Member& member = s.members[place];
    s.next.vacant[place].headline = headline;
    s.nodes.at(member.node).place = -1;
    for (uint32_t local = 0; local < member.workers; ++local) {
      s.ended[member.RankAt(local)] = true;
    }
  }
}

void ReplayRestarts(RoundState& s, const DurableProgress& kept) {
  s.used = kept.used;
  s.failures = kept.failures;
  s.set_aside = kept.set_aside;
  s.short_rounds = kept.short_rounds;
  s.last_restart.not_before = kept.not_before;
  s.last_restart.text = kept.restart_text;
  s.lived = kept.lived;
  if (Mutated(Mutation::kBudgetsNotKept)) {
    s.used.by_node.clear();
  }
}

void ReplayProgress(RoundState& s, const DurableProgress& kept) {
  s.phase = kept.phase;
  s.stop_reason = kept.stop_reason;
  s.stop_signal = kept.stop_signal;
  s.stop_grace = kept.stop_grace;
  s.stop_is_final = kept.stop_is_final;
  s.user_signo = kept.user_signo;
  s.lost_id = kept.lost_id;
  s.lost_node = kept.lost_node;
  s.lost_headline = kept.lost_headline;
  s.signals = kept.signals;
  ReplayReplacement(s, kept.next);
  s.paid_for = {kept.paid_for.begin(), kept.paid_for.end()};
  ReplayRestarts(s, kept);
  s.begun = kept.begun;
  s.round_began = kept.round_began;
  s.stop_began = kept.stop_began;
  s.paused = kept.paused_since.has_value();
  s.paused_since = kept.paused_since.value_or(absl::Time());
  s.report.restarts = kept.restarts;
  s.report.regroupings = kept.regroupings;
  s.report.ended = kept.ended;
  s.report.exit_code = kept.exit_code;
  s.report.cause = kept.cause;
  s.report.headline = kept.headline;
  s.report.lost_node = kept.blamed_node;
  s.report.history = kept.history;
  s.report.first.reset();
  for (const ExitRecord& record : s.report.exits) {
    if (kept.first == record.exit.rank) {
      s.report.first = record;
    }
  }
  s.journaled = kept;
}

// What was to be replaced still is; a place that is vacant waits anew for its node, and as long as
// a lease before another one takes it.
void ResurrectReplacement(Machine& m) {
  RoundState& s = m.state;
  s.next.since = m.now;
  for (auto& [place, vacancy] : s.next.vacant) {
    vacancy.free_at = m.now + m.config.lease + m.config.lease_slack;
  }
  for (const Member& member : s.members) {
    NodeState& node = s.nodes.at(member.node);
    node.exits_failed = 0;
    if (node.place >= 0 && !node.IsLive()) {
      s.lost_in_place.insert(member.node);
    }
  }
  for (const ExitRecord& record : s.report.exits) {
    const bool counts = IsFailure(record.exit) && s.next.ranks.count(record.exit.rank.value) == 0;
    s.nodes.at(record.node).exits_failed += counts ? 1 : 0;
  }
}

bool HasWorkers(const NodeState& node) {
  return node.exits_ok + node.exits_failed < node.join.workers;
}

}  // namespace

absl::Duration ShiftTo(absl::Time now, absl::Time wall_now, const JournalRecord& last) {
  constexpr absl::Duration kBelieved = absl::Hours(366 * 24);
  const absl::Duration since = wall_now - last.wall_at;
  const bool believed = since > absl::ZeroDuration() && since <= kBelieved;
  return now - last.at - (believed ? since : absl::ZeroDuration());
}

JournalRecord Shifted(JournalRecord record, absl::Duration shift) {
  record.at += shift;
  for (LostNode& lost : record.lost_nodes) {
    lost.last_sign += shift;
  }
  if (record.progress.has_value()) {
    DurableProgress& progress = *record.progress;
    for (auto& [id, aside] : progress.set_aside) {
      aside.until += shift;
    }
    progress.not_before += shift;
    progress.begun += shift;
    progress.round_began += shift;
    progress.stop_began += shift;
    if (progress.paused_since.has_value()) {
      *progress.paused_since += shift;
    }
  }
  return record;
}

absl::Status Replay(const RoundConfig& config, RoundState& state, const JournalRecord& record) {
  Machine m{config, state, record.at, {}, NodeId()};
  if (record.round.has_value()) {
    RETURN_IF_ERROR(CheckRound(*record.round));
    ReplayRound(m, *record.round);
  } else if (state.round.IsNone() && !state.report.ended &&
             !(record.progress.has_value() && record.progress->ended)) {
    return absl::InvalidArgumentError("it begins without a round");
  }
  for (const Beat& exits : record.exits) {
    RETURN_IF_ERROR(ReplayExits(m, exits));
  }
  for (const DurableLoss& loss : record.losses) {
    RETURN_IF_ERROR(ReplayLoss(state, loss));
  }
  for (const LostNode& lost : record.lost_nodes) {
    ReplayLostNode(state, lost);
  }
  state.lost_nodes_journaled = state.report.lost_nodes.size();
  if (record.progress.has_value()) {
    ReplayProgress(state, *record.progress);
  }
  return absl::OkStatus();
}

void Resurrect(const RoundConfig& config, RoundState& s, absl::Time now) {
  Machine m{config, s, now, {}, NodeId()};
  s.begun = s.round.IsNone() ? now : s.begun;  // without a round it is a job that has ended
  s.pending.clear();
  if (s.phase == JobPhase::kRunning && config.restart == RestartMode::kOne) {
    ResurrectReplacement(m);
  }
  for (auto& [id, node] : s.nodes) {
    node.heard = node.last_sign = now;
    if (node.status != NodeStatus::kAlive) {
      continue;
    }
    node.status = NodeStatus::kSuspect;
    node.awaited = true;
    ++s.live;
    ++s.awaited;
    Watch(s, id, node, now + SuspectTime(config));
    if (s.phase != JobPhase::kRunning || HasWorkers(node)) {
      s.pending.insert(id);
    }
  }
  Resume(m);  // agents let their workers go on when the connection to their master closed
  if (s.phase == JobPhase::kGathering) {
    BeginGathering(m, /*restarting=*/true);
  }
}

}  // namespace muster
