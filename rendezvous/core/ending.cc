// Stop of a round, its first cause, restart or end of the job.
#include <algorithm>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/mutation.h"
#include "proto/base/text.h"
#include "rendezvous/core/cause.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

// What is known of the restart when a stop begins.
enum class Outlook : uint8_t {
  kRestart,    // one follows
  kNoRestart,  // none does, unless another first cause comes up
  kFinal,
};

struct Cause {
  CauseKind kind = CauseKind::kNone;
  int32_t exit_code = 1;
  std::string headline;
  Failure failure;  // kWorker, kNodeLost
};

std::string LossSentence(const NodeState& node) {
  return absl::StrCat("node ", node.join.hostname, " was lost: ", node.lost_why);
}

// The node that was lost before it could tell how this rank ended.
std::optional<LostNode> LostWith(const RoundState& s, Rank rank) {
  for (const LostNode& node : s.report.lost_nodes) {
    if (std::find(node.ranks.begin(), node.ranks.end(), rank.value) != node.ranks.end()) {
      return node;
    }
  }
  if (rank.value >= s.ended.size() || s.ended[rank.value]) {
    return std::nullopt;
  }
  for (const Member& member : s.members) {
    const NodeState& node = s.nodes.at(member.node);
    const bool lost = node.incarnation != member.incarnation || !node.IsLive();
    if (lost && member.Runs(rank)) {
      return LostNode{node.join.hostname, LossSentence(node), {}, node.last_sign, member.node};
    }
  }
  return std::nullopt;
}

// What a failure follows: another worker's, or the loss of a node.
struct Root {
  const ExitRecord* worker = nullptr;
  std::optional<LostNode> lost;
  bool of_standstill = false;
};

Root FindRoot(const RoundState& s, const ExitRecord& failure) {
  if (FollowsStandstill(s, failure)) {
    return {nullptr, std::nullopt, true};
  }
  const ExitRecord& root = RootOf(s.report.exits, failure);
  if (root.exit.because_of.has_value()) {
    if (std::optional<LostNode> lost = LostWith(s, *root.exit.because_of); lost.has_value()) {
      return {nullptr, std::move(lost)};
    }
  }
  return {&root, std::nullopt};
}

Cause OfStandstill(const RoundState& s) {
  return {CauseKind::kNodeLost, 1, s.stood_still, {s.lost_id, nullptr, true}};
}

Cause CauseOf(const RoundState& s, const Root& root) {
  if (root.of_standstill) {
    return OfStandstill(s);
  }
  if (root.lost.has_value()) {
    return {CauseKind::kNodeLost, 1, root.lost->headline, {root.lost->node}};
  }
  const ExitRecord& worker = *root.worker;
  return {CauseKind::kWorker, worker.exit.ExitCode(), ExitSentence(worker), {worker.node, &worker}};
}

// This failure, or what it follows.
Cause NameWorker(RoundState& s, const ExitRecord& failure) {
  const Root root = FindRoot(s, failure);
  if (root.lost.has_value()) {
    s.report.lost_node = root.lost->hostname;
  } else if (!root.of_standstill) {
    s.report.first = *root.worker;
  }
  return CauseOf(s, root);
}

// As far as it is known while workers may still fail; kNone: no worker has failed.
Cause PresentCause(const RoundState& s) {
  const ExitRecord* first = FirstCause(s.report.exits);
  return first == nullptr ? Cause() : CauseOf(s, FindRoot(s, *first));
}

// Nothing has failed: the round is stopped for the sake of another one.
bool IsByChoice(const RoundState& s) {
  return s.stop_reason == StopReason::kGrowth || s.stop_reason == StopReason::kUserRestart;
}

Cause NameCause(RoundState& s) {
  if (s.stop_reason == StopReason::kUser) {
    return {CauseKind::kUser, 128 + s.user_signo, s.lost_headline, {}};
  }
  if (s.stop_reason == StopReason::kTimeout) {
    return {CauseKind::kTimeout, 124, s.lost_headline, {}};
  }
  if (IsByChoice(s)) {
    return {CauseKind::kNone, 0, s.lost_headline, {}};
  }
  const ExitRecord* first = FirstCause(s.report.exits);
  if (s.stop_reason == StopReason::kNode || first == nullptr) {
    s.report.lost_node = s.lost_node;
    const std::string others = s.lost_node.empty() ? "" : LostBeside(s);
    return {CauseKind::kNodeLost, 1, absl::StrCat(s.lost_headline, others),
            LossOf(s, s.lost_id, s.lost_headline)};
  }
  return NameWorker(s, *first);
}

// Of a round that went on to its end.
Cause NameFirstFailure(RoundState& s) {
  const ExitRecord* worker = EarliestFailure(s.report.exits);
  const std::vector<LostNode>& lost = s.report.lost_nodes;
  const auto node = std::min_element(
      lost.begin(), lost.end(),
      [](const LostNode& one, const LostNode& other) { return one.last_sign < other.last_sign; });
  if (node != lost.end() && (worker == nullptr || node->last_sign < FailedAt(*worker))) {
    const Failure loss = LossOf(s, node->node, node->headline);
    s.report.lost_node = loss.of_standstill ? "" : node->hostname;
    return {CauseKind::kNodeLost, 1, node->headline, loss};
  }
  if (worker == nullptr) {
    return {CauseKind::kNone, 0, "", {}};
  }
  return NameWorker(s, *worker);
}

// What never started once starts no better the second time.
bool AnySpawnFailed(const RoundState& s) {
  for (const ExitRecord& record : s.report.exits) {
    if (record.exit.kind == ExitKind::kSpawnFailed && IsFailure(record.exit)) {
      return true;
    }
  }
  return false;
}

// A worker that failed before the others were stopped for a newcomer. What fails later may have
// lost a peer that was stopped.
bool FailedBefore(const RoundState& s) {
  const ExitRecord* first = EarliestFailure(s.report.exits);
  return first != nullptr && FailedAt(*first) < s.stop_began;
}

// The round that follows is for other nodes, not for a failure.
bool IsRegrouping(const Machine& m, const Cause& cause, const Verdict& verdict) {
  const RoundState& s = m.state;
  const bool moved = s.stop_reason == StopReason::kGrowth ||
                     (cause.kind == CauseKind::kNodeLost && NodesMayGo(m) && verdict.rule.empty());
  return moved && m.live() >= m.config.nodes_min && !Mutated(Mutation::kRegroupingCounted);
}

void Regroup(Machine& m, const Cause& cause, const Verdict& verdict) {
  RoundState& s = m.state;
  ++s.report.regroupings;
  if (s.stop_reason == StopReason::kGrowth) {
    return TellNext(m, absl::StrCat(cause.headline, "; a new round starts"));
  }
  const uint32_t nodes = std::min(m.live(), m.config.nodes_max);
  TellNext(m, absl::StrCat(cause.headline, "; a round of ", Plural(nodes, "node", "nodes"),
                           " follows", NoteFailure(m, cause.failure, verdict)));
}

// Where replace.cc mends failures, a round is stopped only for one that it cannot mend.
bool AllMayRestart(const Machine& m) {
  return m.config.restart != RestartMode::kOne && MayEverRestart(m.config, m.state);
}

bool MayRestart(const Machine& m, const Failure& failure) {
  return AllMayRestart(m) && m.live() >= m.config.nodes_min &&
         Judge(m.config, m.state, failure).why_not.empty();
}

Outlook OutlookAfter(const Machine& m, const Failure& failure) {
  return !AllMayRestart(m)                                   ? Outlook::kFinal
         : Judge(m.config, m.state, failure).why_not.empty() ? Outlook::kRestart
                                                             : Outlook::kNoRestart;
}

// For the report of a job that could have been started again; else "".
std::string WhyNoRestart(const Machine& m, const Cause& cause, const Verdict& verdict) {
  const bool failed = cause.kind == CauseKind::kWorker || cause.kind == CauseKind::kNodeLost;
  const bool wanted = m.config.restarts_max > 0 || !m.config.rules.on_exit.empty();
  if (!failed || !wanted || AnySpawnFailed(m.state)) {
    return "";
  }
  return !verdict.why_not.empty() || EnoughMayCome(m)
             ? verdict.why_not
             : absl::StrCat(Plural(m.live(), "node is", "nodes are"), " left, the job needs ",
                            m.config.nodes_min);
}

// Of a round that was stopped for the sake of another one: nodes went meanwhile, or did not come.
Cause NoneFollows(const Machine& m, const std::string& headline) {
  return {CauseKind::kNeverFormed,
          1,
          absl::StrCat(headline, ", but ", Plural(m.live(), "node is", "nodes are"),
                       " left, and a round needs ", m.config.nodes_min),
          {}};
}

// Every member has reported everything, or is lost.
void Settle(Machine& m) {
  RoundState& s = m.state;
  const bool failed_before = s.stop_reason == StopReason::kGrowth && FailedBefore(s);
  if (failed_before || (IsByChoice(s) && AnySpawnFailed(s))) {
    s.stop_reason = StopReason::kWorker;
  }
  s.lived = s.stop_began - s.round_began;
  Cause cause = NameCause(s);
  const bool asked = s.stop_reason == StopReason::kUserRestart;
  const Verdict verdict = asked ? Verdict() : Judge(m.config, s, cause.failure);
  const bool all_done = IsByChoice(s) && s.finished == s.world_size;
  const bool regroups = IsRegrouping(m, cause, verdict);
  const bool restarts = verdict.why_not.empty() && EnoughMayCome(m);
  if (s.stop_is_final || all_done || !(regroups || restarts) || AnySpawnFailed(s)) {
    s.report.no_restart = WhyNoRestart(m, cause, verdict);
    if (IsByChoice(s) && !all_done) {
      cause = NoneFollows(m, cause.headline);
    }
    return EndJob(m, cause.exit_code, cause.kind, all_done ? "" : std::move(cause.headline));
  }
  if (regroups) {
    Regroup(m, cause, verdict);
  } else if (asked) {
    CountUserRestart(m);
  } else {
    CountRestart(m, cause.failure, verdict, cause.headline);
  }
  s.report.lost_node.clear();
  BeginGathering(m, /*restarting=*/true);
  TryStart(m);
}

absl::Duration FinalGrace(const Machine& m) { return m.state.user_grace.value_or(m.config.grace); }

void BeginStop(Machine& m, StopReason reason, int32_t signo, Outlook outlook) {
  RoundState& s = m.state;
  s.phase = JobPhase::kStopping;
  s.stop_reason = reason;
  s.stop_began = m.now;
  s.stop_is_final = outlook == Outlook::kFinal;
  s.stop_signal = signo;
  s.stop_grace = outlook == Outlook::kRestart ? m.config.restart_grace : FinalGrace(m);
  Resume(m);  // a stopped process cannot handle the signal
  TellStopLater(m);
  s.pending.clear();
  for (const Member& member : s.members) {
    const NodeState& node = s.nodes.at(member.node);
    const bool reported = node.phase == AgentPhase::kReady && node.round == s.round;
    if (node.place >= 0 && node.IsLive() && !reported) {
      s.pending.insert(member.node);
    }
  }
  SendToMembers(m);
  if (s.pending.empty()) {
    Settle(m);
  }
}

// `told`: StopAsked's.
std::string HowStopped(const Machine& m, int32_t signo, const std::string& told) {
  return !told.empty() ? told
         : signo == SIGTERM && !m.config.sigterm_told.empty()
             ? m.config.sigterm_told
             : absl::StrCat("stopped by the user (", SignalName(signo), ")");
}

// A stop that goes on is made final, and more urgent. Another signal than its first is passed on,
// too: who could not heed SIGINT may end by SIGTERM.
void Insist(Machine& m, int32_t signo, bool at_once, const std::string& headline) {
  RoundState& s = m.state;
  const int32_t want = at_once ? 0 : signo;
  bool changed = false;
  if (!s.stop_is_final) {
    s.stop_is_final = true;
    s.stop_reason = StopReason::kUser;
    s.user_signo = signo;
    s.lost_headline = headline;
    s.stop_signal = want;
    s.stop_grace = FinalGrace(m);
    changed = true;
  } else if (const bool another = s.stop_reason == StopReason::kUser && s.stop_signal != signo;
             s.stop_signal != 0 && (at_once || another)) {
    s.stop_signal = want;
    changed = true;
  }
  if (changed) {
    SendToMembers(m);
  }
}

}  // namespace

std::string WhyStopping(const RoundState& s) {
  return s.stop_reason == StopReason::kWorker ? PresentCause(s).headline : s.lost_headline;
}

bool GoesOn(const Machine& m) {
  return m.config.on_failure == OnFailure::kContinue && !Mutated(Mutation::kFailureStopsAll) &&
         !(AllMayRestart(m) && m.live() >= m.config.nodes_min);
}

bool GoesOnAfterWorker(const Machine& m) {
  return m.config.on_failure == OnFailure::kContinue && !Mutated(Mutation::kFailureStopsAll) &&
         (!AllMayRestart(m) || !MayRestart(m, PresentCause(m.state).failure));
}

bool GoesOnWithout(const Machine& m, NodeId id) {
  return m.config.on_failure == OnFailure::kContinue && !Mutated(Mutation::kFailureStopsAll) &&
         !MayRestart(m, LossOf(m.state, id, WhyLost(m.state, "")));
}

void GoOnWithout(Machine& m, NodeId id, const std::string& headline) {
  RoundState& s = m.state;
  if (s.pending.count(id) == 0) {
    return;  // its workers had ended before
  }
  const NodeState& node = s.nodes.at(id);
  const Member& member = s.members[static_cast<size_t>(node.place)];
  LostNode lost{node.join.hostname, headline, {}, node.last_sign, id};
  for (uint32_t local = 0; local < member.workers; ++local) {
    const uint32_t rank = member.RankAt(local);
    if (!s.ended[rank]) {
      s.ended[rank] = true;
      lost.ranks.push_back(rank);
    }
  }
  if (!Mutated(Mutation::kLostNodeForgotten)) {
    s.report.lost_nodes.push_back(std::move(lost));
  }
  TellFailure(m, headline);
  m.out.push_back(NodeMissing{s.round, static_cast<uint32_t>(node.place), headline});
  NotReplaced(m, id);
  MemberSettled(m, id, /*lost=*/true);
}

void StopForWorker(Machine& m) {
  // It may have failed because a node is gone, of which we do not know yet.
  const bool goes_on = NodesMayGo(m);
  const bool never = AnySpawnFailed(m.state) || (!goes_on && m.live() < m.config.nodes_min);
  BeginStop(m, StopReason::kWorker, SIGTERM,
            never     ? Outlook::kFinal
            : goes_on ? Outlook::kRestart
                      : OutlookAfter(m, PresentCause(m.state).failure));
}

void StopForNode(Machine& m, NodeId id, const std::string& headline) {
  m.state.lost_id = id;
  const Failure loss = LossOf(m.state, id, headline);
  m.state.lost_node = loss.of_standstill ? "" : m.state.nodes.at(id).join.hostname;
  m.state.lost_headline = headline;
  // A replacement may still come while the others stop: Settle decides whether there are enough.
  const bool goes_on = NodesMayGo(m) && Judge(m.config, m.state, loss).rule.empty();
  BeginStop(m, StopReason::kNode, SIGTERM, goes_on ? Outlook::kRestart : OutlookAfter(m, loss));
}

void StopForGrowth(Machine& m, std::string headline) {
  m.state.lost_headline = std::move(headline);
  BeginStop(m, StopReason::kGrowth, SIGTERM, Outlook::kRestart);
}

void StopForUserRestart(Machine& m) {
  m.state.lost_headline = "restarted by the user";
  BeginStop(m, StopReason::kUserRestart, SIGTERM, Outlook::kRestart);
}

void StopForTimeLimit(Machine& m) {
  RoundState& s = m.state;
  const std::string headline = absl::StrCat("the job was still running after its time limit of ",
                                            ShortDuration(m.config.time_limit), " (--timeout)");
  if (s.phase == JobPhase::kGathering) {
    return EndJob(m, 124, CauseKind::kTimeout, headline);
  }
  if (s.phase == JobPhase::kRunning) {
    s.lost_headline = headline;
    return BeginStop(m, StopReason::kTimeout, SIGTERM, Outlook::kFinal);
  }
  if (s.phase == JobPhase::kStopping && !s.stop_is_final) {
    Insist(m, SIGTERM, /*at_once=*/false, headline);
    s.stop_reason = StopReason::kTimeout;
  }
}

void OnUserStop(Machine& m, const StopAsked& stop) {
  RoundState& s = m.state;
  const bool at_once = stop.now;
  const int32_t signo = stop.signo != 0 ? stop.signo : s.user_signo != 0 ? s.user_signo : SIGKILL;
  s.user_grace = stop.grace;
  switch (s.phase) {
    case JobPhase::kGathering:
      s.stop_signal = at_once ? 0 : signo;
      s.stop_grace = FinalGrace(m);
      return EndJob(m, 128 + signo, CauseKind::kUser,
                    absl::StrCat(HowStopped(m, signo, stop.told),
                                 s.members.empty() ? "; it had not started"
                                                   : "; its next round had not started"));
    case JobPhase::kRunning:
      s.user_signo = signo;
      s.lost_headline = HowStopped(m, signo, stop.told);
      return BeginStop(m, StopReason::kUser, at_once ? 0 : signo, Outlook::kFinal);
    case JobPhase::kStopping:
      s.next_tell = absl::InfiniteFuture();  // who asks is told by launch
      if (s.stop_reason == StopReason::kUser && signo == s.user_signo && !stop.told.empty()) {
        s.lost_headline = stop.told;  // what an agent has heard first, launch knows better
      }
      return Insist(m, signo, at_once, HowStopped(m, signo, stop.told));
    case JobPhase::kEnding:
      if (at_once && s.stop_signal != 0) {
        s.stop_signal = 0;
        SendToAll(m);
      }
      return;
    case JobPhase::kEnded:
      return;
  }
}

void MemberSettled(Machine& m, NodeId id, bool lost) {
  RoundState& s = m.state;
  if (s.pending.erase(id) == 0) {
    return;
  }
  const NodeState& node = s.nodes.at(id);
  // Silent since before the stop: its loss is what broke the others' connections.
  // Where the master stood still, the time of the failure tells which came first.
  const std::string why = WhyLost(s, LossSentence(node));
  const bool blamed = !LossOf(s, id, why).of_standstill;
  const bool first = s.stop_reason == StopReason::kWorker && node.heard < s.stop_began;
  if (lost && ((first && blamed) || IsByChoice(s))) {
    s.stop_reason = StopReason::kNode;
    s.lost_id = id;
    s.lost_node = blamed ? node.join.hostname : "";
    s.lost_headline = why;
  }
  if (!s.pending.empty() || (s.phase == JobPhase::kRunning && !s.next.IsNone())) {
    return;
  }
  if (s.phase == JobPhase::kRunning) {
    s.stop_signal = SIGTERM;
    s.stop_grace = m.config.grace;
    Cause cause = NameFirstFailure(s);
    EndJob(m, cause.exit_code, cause.kind, std::move(cause.headline));
  } else {
    Settle(m);
  }
}

}  // namespace muster
