#include "rendezvous/core/replay.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/mutation.h"
#include "proto/base/status_macros.h"
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
  return absl::OkStatus();
}

void ReplayRound(Machine& m, const DurableRound& kept, absl::Duration shift) {
  RoundState& s = m.state;
  s = RoundState();
  s.round = kept.round;
  s.node_ids = kept.node_ids;
  s.incarnations = kept.incarnations + kLivesSkipped;
  s.agreed = kept.agreed;
  s.begun = kept.begun + shift;
  s.round_began = m.now;
  for (const DurableNode& other : kept.others) {
    AddNode(s, other).status = NodeStatus::kLost;
  }
  std::vector<NodeId> order;
  for (const DurableNode& member : kept.members) {
    AddNode(s, member).round = kept.round;
    order.push_back(member.node);
  }
  SetMembers(m, order);
  s.ended.assign(s.world_size, false);
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

void ReplayLostNode(RoundState& s, const LostNode& lost, absl::Duration shift) {
  s.report.lost_nodes.push_back(lost);
  s.report.lost_nodes.back().last_sign += shift;
  for (const uint32_t rank : lost.ranks) {
    if (rank < s.ended.size()) {
      s.ended[rank] = true;
    }
  }
}

// Not done: which of the restarts were free of charge, what ranks and nodes have used, and which
// nodes are set aside is not kept.
void ReplayProgress(const RoundConfig& config, RoundState& s, const DurableProgress& kept) {
  s.phase = kept.phase;
  s.stop_reason = kept.stop_reason;
  s.stop_signal = kept.stop_signal;
  s.stop_grace = kept.stop_grace;
  s.stop_is_final = kept.stop_is_final;
  s.user_signo = kept.user_signo;
  s.lost_node = kept.lost_node;
  s.lost_headline = kept.lost_headline;
  s.signals = kept.signals;
  s.report.restarts = kept.restarts;
  s.used.job = std::min(kept.restarts, config.restarts_max);
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

bool HasWorkers(const NodeState& node) {
  return node.exits_ok + node.exits_failed < node.join.workers;
}

}  // namespace

absl::Status Replay(const RoundConfig& config, RoundState& state, const JournalRecord& record,
                    absl::Duration shift) {
  Machine m{config, state, record.at + shift, {}, NodeId()};
  if (record.round.has_value()) {
    RETURN_IF_ERROR(CheckRound(*record.round));
    ReplayRound(m, *record.round, shift);
  } else if (state.round.IsNone() && !state.report.ended &&
             !(record.progress.has_value() && record.progress->ended)) {
    return absl::InvalidArgumentError("it begins without a round");
  }
  if (record.exits.has_value()) {
    RETURN_IF_ERROR(ReplayExits(m, *record.exits));
  }
  for (const DurableLoss& loss : record.losses) {
    RETURN_IF_ERROR(ReplayLoss(state, loss));
  }
  for (const LostNode& lost : record.lost_nodes) {
    ReplayLostNode(state, lost, shift);
  }
  state.lost_nodes_journaled = state.report.lost_nodes.size();
  if (record.progress.has_value()) {
    ReplayProgress(config, state, *record.progress);
  }
  return absl::OkStatus();
}

void Resurrect(const RoundConfig& config, RoundState& s, absl::Time now) {
  Machine m{config, s, now, {}, NodeId()};
  s.begun = s.round.IsNone() ? now : s.begun;  // without a round it is a job that has ended
  s.pending.clear();
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
  if (s.phase == JobPhase::kGathering) {
    BeginGathering(m, /*restarting=*/true);
  }
}

}  // namespace muster
