// Beats, departures and losses of nodes.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/mutation.h"
#include "proto/base/text.h"
#include "rendezvous/core/cause.h"
#include "rendezvous/core/liveness.h"
#include "rendezvous/core/machine.h"
#include "rendezvous/core/why_waiting.h"

namespace muster {

bool Member::Runs(Rank rank) const {
  return ranks.empty() ? rank.value >= rank_first.value && rank.value < rank_first.value + workers
                       : std::find(ranks.begin(), ranks.end(), rank.value) != ranks.end();
}

bool InRound(const RoundState& s, const NodeState& node) {
  return node.place >= 0 && (s.phase == JobPhase::kRunning || s.phase == JobPhase::kStopping);
}

RoundId NextRound(const RoundConfig& config, const RoundState& s) {
  return {config.epoch, std::max(s.round.n, config.rounds_before) + 1};
}

bool OnlyEnds(const RoundState& s) {
  return (s.phase == JobPhase::kStopping && s.stop_is_final) || s.phase == JobPhase::kEnding ||
         s.phase == JobPhase::kEnded;
}

namespace {

// Last lines of stderr are kept of this many failed workers; the report shows those of the first
// cause.
constexpr size_t kTailsMax = 256;

void Record(Machine& m, NodeId id, const NodeState& node, const WorkerExit& exit) {
  RoundState& s = m.state;
  if (exit.Ok() || !HoldsRound(s, node) || s.report.exits.size() >= s.world_size) {
    return;
  }
  if (Mutated(Mutation::kExitAckedUnrecorded) && exit.kind == ExitKind::kSignaled) {
    return;
  }
  if (IsFailure(exit) && exit.because_of.has_value()) {
    s.blamed.insert(exit.because_of->value);
  }
  ExitRecord record{s.round, id, node.join.hostname, exit, m.now - exit.age};
  if (exit.stopped_by_us || s.report.exits.size() >= kTailsMax) {
    record.exit.stderr_tail.clear();
  }
  s.report.exits.push_back(std::move(record));
}

void MarkEnded(RoundState& s, const NodeState& node, const WorkerExit& exit) {
  const bool by_itself = IsSuccess(exit) || IsFailure(exit);
  if (!by_itself || !HoldsRound(s, node) || exit.rank.value >= s.ended.size()) {
    return;
  }
  s.ended[exit.rank.value] = true;
  if (IsSuccess(exit)) {
    ++s.finished;
    s.report.ended_well.push_back(exit.rank.value);
    if (!s.started_in.empty()) {
      s.started_in[exit.rank.value] = 0;
    }
  }
}

// One that another worker blames for its failure ended with a code of its own: it has left the
// others before, and was on its way when the stop came. (128 and more: what shells make of a
// signal.)
bool HadFailedBefore(const RoundState& s, const WorkerExit& exit) {
  const bool own_code = exit.kind == ExitKind::kExited && exit.code > 0 && exit.code < 128;
  return exit.stopped_by_us && own_code && s.blamed.count(exit.rank.value) != 0;
}

// Of a rank of its that has not ended before, as far as it has said. From then on it has.
bool TellsAnEnd(RoundState& s, const NodeState& node, Rank rank) {
  if (!s.members[static_cast<size_t>(node.place)].Runs(rank) || s.told[rank.value]) {
    return false;
  }
  s.told[rank.value] = true;
  return true;
}

struct Ends {
  bool failed = false;        // a worker failed by itself
  bool never_ran = false;     // ... as it could not be started
  bool stopped = false;       // a worker was stopped
  size_t first_recorded = 0;  // of report.exits: the first of these ends that is there
};

// Takes the exits not seen before (rule 4 of messages.h).
Ends TakeExits(Machine& m, NodeId id, NodeState& node, const Beat& beat) {
  Ends ends;
  ends.first_recorded = m.state.report.exits.size();
  const uint32_t before = node.exits_seen;
  for (size_t i = 0; i < beat.exits.size(); ++i) {
    if (beat.exits_from + i != node.exits_seen) {
      continue;
    }
    WorkerExit exit = beat.exits[i];
    exit.stopped_by_us = exit.stopped_by_us && !HadFailedBefore(m.state, exit);
    ++node.exits_seen;
    if (HoldsRound(m.state, node) && !TellsAnEnd(m.state, node, exit.rank)) {
      continue;  // an agent that is broken, or means harm
    }
    node.exits_ok += IsSuccess(exit) ? 1 : 0;
    node.exits_failed += IsFailure(exit) ? 1 : 0;
    ends.failed |= IsFailure(exit);
    ends.never_ran |= IsFailure(exit) && exit.kind == ExitKind::kSpawnFailed;
    ends.stopped |= exit.stopped_by_us;
    Record(m, id, node, exit);
    MarkEnded(m.state, node, exit);
  }
  if (m.config.journal && node.exits_seen != before && HoldsRound(m.state, node)) {
    Beat& kept = m.record.exits.emplace_back();
    kept.node = id;
    kept.incarnation = node.incarnation;
    kept.round = m.state.round;
    kept.exits_from = beat.exits_from;
    kept.exits = beat.exits;
    for (WorkerExit& exit : kept.exits) {
      if (!m.state.members[static_cast<size_t>(node.place)].Runs(exit.rank)) {
        const Rank rank = exit.rank;
        exit = WorkerExit();  // only counted
        exit.rank = rank;
      }
    }
  }
  return ends;
}

void NodeFailed(Machine& m, NodeId id, const std::string& what) {
  const std::string& headline = WhyLost(m.state, what);
  if (ReplaceNode(m, id, headline)) {
    return;
  }
  if (GoesOnWithout(m, id)) {
    GoOnWithout(m, id, headline);
  } else {
    StopForNode(m, id, headline);
  }
}

void MemberOfRunningRound(Machine& m, NodeId id, NodeState& node, const Ends& ends) {
  if (!HoldsRound(m.state, node)) {
    return;  // it has not heard of the round yet
  }
  const bool replaced =
      ends.failed && !ends.never_ran && ReplaceWorkers(m, node, ends.first_recorded);
  if (ends.failed && !replaced && (ends.never_ran || !GoesOnAfterWorker(m))) {
    return StopForWorker(m);
  }
  if (!replaced) {
    TellFailures(m, ends.first_recorded);
  }
  if (node.exits_ok + node.exits_failed == node.join.workers) {
    MemberSettled(m, id, /*lost=*/false);
  } else if (ends.stopped || node.phase != AgentPhase::kRunning) {
    const std::string why = node.leaves != 0
                                ? absl::StrCat("it was told to end (", SignalName(node.leaves), ")")
                                : "it had lost its connection to the master";
    if (m.config.restart == RestartMode::kOne && node.leaves != 0) {
      return;  // Leave says when nothing runs there any more: then its place is another one's
    }
    if (m.config.restart == RestartMode::kOne) {
      return Lose(m, id, why);  // in its next life it is a node as any other that comes
    }
    NodeFailed(m, id,
               absl::StrCat("node ", node.join.hostname,
                            node.leaves != 0 ? " leaves: " : " ended its workers: ", why));
  }
}

void TakeStarted(Machine& m, NodeId id, const NodeState& node, const Beat& beat) {
  RoundState& s = m.state;
  if (node.place < 0 || node.round != s.round || beat.workers_started < node.join.workers) {
    return;
  }
  if (s.unstarted.erase(id) != 0 && s.unstarted.empty()) {
    m.out.push_back(WorkersStarted{s.round, s.world_size, static_cast<uint32_t>(s.members.size())});
  }
}

void TakeHeard(Machine& m, NodeId id, NodeState& node, const Beat& beat) {
  for (const HeardSignal& heard : beat.heard) {
    uint32_t& told = node.heard_signals[heard.signo];
    if (heard.times > told) {  // many at once are one, as in the kernel
      told = heard.times;
      m.out.push_back(SignalHeard{id, heard.signo});
    }
  }
}

void Absorb(Machine& m, NodeId id, NodeState& node, const Beat& beat) {
  RoundState& s = m.state;
  if (beat.round != node.round) {
    const bool held = HoldsRound(s, node);
    node.round = beat.round;
    const bool holds = HoldsRound(s, node);
    if (!held || !holds) {
      // Of one that was given up and comes back, those before were told then.
      node.exits_seen = holds ? 0 : beat.exits_from;
      node.exits_failed = 0;
      node.exits_ok = EndedWell(s, node);
    }
    node.pids.clear();
  }
  node.phase = beat.phase;
  node.store_port = beat.store_port;
  node.workers_alive = beat.workers_alive;
  node.paused = beat.paused;
  node.leaves = beat.leaves;
  node.signals_done = beat.signals_done;
  TakeDrillsDone(node, beat.drills_done);
  if (!beat.pids.empty()) {
    node.pids = beat.pids;
  }
  TakeHeard(m, id, node, beat);
  TakeStarted(m, id, node, beat);
  const Ends ends = TakeExits(m, id, node, beat);
  if (beat.stop_asked != 0 || beat.kill_asked) {
    OnUserStop(m, {beat.stop_asked, beat.kill_asked});
  }
  if (!beat.restart_asked.IsNone() && beat.restart_asked >= s.chain &&
      beat.restart_asked <= s.round) {
    (void)RestartRound(m);  // who has asked sees it stop, or why the job goes on as it is
  }
  if (node.place >= 0 && s.phase == JobPhase::kRunning) {
    MemberOfRunningRound(m, id, node, ends);
  } else if (node.place >= 0 && s.phase == JobPhase::kStopping &&
             node.phase == AgentPhase::kReady && HoldsRound(s, node)) {
    MemberSettled(m, id, /*lost=*/false);
  }
  UpdateReady(m, id, node);
  TryStart(m);
}

// The sender, if the message is of its present life; drops the link of one that must join anew.
NodeState* Sender(Machine& m, NodeId id, Incarnation incarnation) {
  const auto it = m.state.nodes.find(id);
  if (it == m.state.nodes.end() || incarnation > it->second.incarnation ||
      (incarnation == it->second.incarnation && !it->second.IsLive())) {
    m.out.push_back(DropLink{id, incarnation});
    return nullptr;
  }
  if (Mutated(Mutation::kOldIncarnationBelieved)) {
    return &it->second;
  }
  return incarnation == it->second.incarnation ? &it->second : nullptr;  // I3
}

void NotAwaited(RoundState& s, NodeState& node) {
  s.awaited -= node.awaited ? 1 : 0;
  node.awaited = false;
}

std::string WhyExpired(const Machine& m, const NodeState& node) {
  if (node.awaited) {
    return absl::StrCat("it did not come back within ", ShortDuration(m.now - node.heard),
                        " after the master did");
  }
  return node.status == NodeStatus::kSuspect
             ? absl::StrCat("its connection closed and did not come back within ",
                            ShortDuration(SuspectTime(m.config)))
             : absl::StrCat("no beat for ", ShortDuration(m.now - node.heard));
}

void Gone(Machine& m, NodeId id, NodeState& node, NodeStatus status, const std::string& why) {
  RoundState& s = m.state;
  const bool in_round = InRound(s, node);
  if (m.config.journal && node.place >= 0) {
    m.record.losses.push_back({id, status == NodeStatus::kLeft, why});
  }
  Unwatch(s, id, node);
  node.status = status;
  node.lost_why = why;
  --s.live;
  NotAwaited(s, node);
  s.note_stale = true;
  UpdateReady(m, id, node);
  // One that was in no round and leaves has said why.
  const bool comes_back = (in_round || status == NodeStatus::kLost) && PlanComeback(m, node);
  if (in_round && s.phase == JobPhase::kRunning) {
    NodeFailed(m, id,
               absl::StrCat("node ", node.join.hostname,
                            status == NodeStatus::kLeft ? " left: " : " was lost: ", why));
  } else if (in_round) {
    MemberSettled(m, id, /*lost=*/true);
  } else if (s.phase == JobPhase::kEnding) {
    node.ended = true;
    s.pending.erase(id);
    MaybeEnded(m);
  } else if (s.phase == JobPhase::kGathering) {
    std::string gone = absl::StrCat(node.join.hostname, " is gone: ", why);
    if (m.config.expected.empty() || comes_back || m.admits) {
      m.out.push_back(Tell{std::move(gone)});
    } else {  // a host list: nobody starts it a second time
      GiveUpNode(m, node.join.key, gone);
    }
    TryStart(m);
  }
}

}  // namespace

std::string LostBeside(const RoundState& s) {
  std::vector<std::string> names;
  for (const Member& member : s.members) {
    const NodeState& node = s.nodes.at(member.node);
    const bool lost = node.incarnation != member.incarnation || !node.IsLive();
    if (lost && member.node != s.lost_id) {
      names.push_back(node.join.hostname);
    }
  }
  return names.empty() ? "" : absl::StrCat("; lost as well: ", FewNames(std::move(names)));
}

uint32_t EndedWell(const RoundState& s, const NodeState& node) {
  uint32_t count = 0;
  if (node.place >= 0 && !s.started_in.empty()) {
    const Member& member = s.members[static_cast<size_t>(node.place)];
    for (uint32_t local = 0; local < member.workers; ++local) {
      count += s.started_in[member.RankAt(local)] == 0 ? 1 : 0;
    }
  }
  return count;
}

void UpdateReady(Machine& m, NodeId id, const NodeState& node) {
  RoundState& s = m.state;
  const bool has_port = node.store_port != 0 || Mutated(Mutation::kStartsUnready);
  const bool idle = node.phase == AgentPhase::kReady || Mutated(Mutation::kStartsUnready);
  const bool ready =
      node.status == NodeStatus::kAlive && idle && has_port && !node.ended && !InRound(s, node);
  if (ready ? s.ready.insert(id).second : s.ready.erase(id) != 0) {
    s.note_stale = true;
  }
}

void RetakeExits(Machine& m, NodeId id, NodeState& node, const Beat& beat) {
  TakeExits(m, id, node, beat);
}

void OnBeat(Machine& m, const Beat& beat) {
  NodeState* node = Sender(m, beat.node, beat.incarnation);
  if (node == nullptr || beat.seq <= node->beat_seq_last) {
    return;  // repeated or overtaken: the later beat said more
  }
  node->beat_seq_last = beat.seq;
  node->use = beat.use;
  node->heard = node->last_sign = m.now;
  node->status = NodeStatus::kAlive;
  if (node->awaited) {
    NotAwaited(m.state, *node);
    if (m.state.awaited == 0) {
      m.out.push_back(
          Tell{absl::StrCat("the nodes of round ", m.state.round.ToString(), " are back")});
    }
  }
  Watch(m.state, beat.node, *node, m.now + m.config.lease + m.config.lease_slack);
  m.answering = beat.node;
  Absorb(m, beat.node, *node, beat);
  m.answering = NodeId();
  TellIdle(m, *node);
  if (node->IsLive()) {
    SendDirective(m, beat.node, &beat);
  }
}

void OnLeave(Machine& m, const Leave& leave) {
  NodeState* node = Sender(m, leave.node, leave.incarnation);
  if (node != nullptr) {
    Gone(m, leave.node, *node, NodeStatus::kLeft, leave.reason.empty() ? "it ended" : leave.reason);
    TryStart(m);
  }
}

void OnLinkClosed(Machine& m, const LinkClosed& event) {
  RoundState& s = m.state;
  const auto it = s.nodes.find(event.node);
  if (it == s.nodes.end() || it->second.incarnation != event.incarnation ||
      it->second.status != NodeStatus::kAlive) {
    return;
  }
  NodeState& node = it->second;
  if (s.phase == JobPhase::kEnding && node.workers_alive == 0) {
    return Gone(m, event.node, node, NodeStatus::kLeft, "it ended");
  }
  node.status = NodeStatus::kSuspect;
  node.last_sign = m.now;
  Watch(s, event.node, node, m.now + SuspectTime(m.config));
  UpdateReady(m, event.node, node);
  TryStart(m);
}

void Lose(Machine& m, NodeId id, const std::string& why) {
  NodeState& node = m.state.nodes.at(id);
  if (node.IsLive()) {
    m.out.push_back(DropLink{id, node.incarnation});
    Gone(m, id, node, NodeStatus::kLost, why);
  }
}

void ExpireNodes(Machine& m) {
  std::vector<std::pair<NodeId, std::string>> expired;
  for (const NodeId id : TakeExpired(m.state, m.now)) {
    NodeState& node = m.state.nodes.at(id);
    expired.emplace_back(id, WhyExpired(m, node));
    node.status = NodeStatus::kSuspect;  // the loss of one may start a round, without the others
    UpdateReady(m, id, node);
  }
  for (const auto& [id, why] : expired) {
    Lose(m, id, why);
  }
}

}  // namespace muster
