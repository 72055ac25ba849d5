// The round an agent holds: start, signals, exits; its stop is in agent_stop.cc.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/agent_step.h"
#include "proto/base/mutation.h"
#include "proto/base/text.h"

namespace muster {
void AgentStep::On(const WorkerSpawned& spawned) {
  if (IsOfRound(spawned.round) && spawned.local_rank.value < s_.workers.size()) {
    WorkerState& worker = s_.workers[spawned.local_rank.value];
    s_.workers_started += worker.pid == 0 ? 1 : 0;
    worker.pid = spawned.pid;
    beat_wanted_ |= s_.workers_started == s_.workers.size();  // somebody may wait for it
  }
}

void AgentStep::On(const WorkerEnded& ended) {
  const uint32_t local_rank = ended.exit.local_rank.value;
  if (IsOfRound(ended.round) && local_rank < s_.workers.size() && !s_.workers[local_rank].ended) {
    s_.alone = ended.alone;
    if (StandsStill() && ended.exit.kind == ExitKind::kSignaled && ended.exit.code == SIGKILL) {
      Kill();  // this process alone stood still: the shepherd has killed all, and says so after
               // this
    }
    AddExit(ended.exit);
  }
}

void AgentStep::On(const RoundCleared& cleared) {
  if (cleared.round != s_.round || s_.cleared || !s_.clearing) {
    return;
  }
  s_.clearing = s_.draining = false;
  s_.cleared = true;
  beat_wanted_ |= std::exchange(s_.keep_awaits, false);  // its answer brings it again
  for (uint32_t i = 0; i < s_.workers.size(); ++i) {
    if (!s_.workers[i].ended) {
      AddUntoldExit(LocalRank{i});
    }
  }
}

// Its round is over, and its end must be told (A3).
void AgentStep::AddUntoldExit(LocalRank local_rank) {
  WorkerExit exit;
  exit.local_rank = local_rank;
  exit.rank = s_.assignment->RankOf(local_rank);
  exit.pid = s_.workers[local_rank.value].pid;
  if (exit.pid == 0) {
    exit.kind = ExitKind::kSpawnFailed;
    exit.code = ECANCELED;
    exit.detail = "its round was ended before it was started";
  } else {  // stuck in the kernel: it will never run again
    exit.kind = ExitKind::kSignaled;
    exit.code = SIGKILL;
    exit.detail = "did not end after SIGKILL";
  }
  AddExit(std::move(exit));
}

void AgentStep::AddExit(WorkerExit exit) {
  WorkerState& worker = s_.workers[exit.local_rank.value];
  worker.ended = true;
  worker.ended_well = exit.Ok();
  --s_.workers_alive;
  if (s_.stop_sent || s_.killed) {
    // One that still ran on when the others failed because of it was stopped with them, and is
    // their cause all the same.
    const bool had_failed =
        exit.error_before.has_value() && now_ - *exit.error_before + kFileTimeGrain < s_.stopped_at;
    exit.stopped_by_us |= !had_failed;
    if (had_failed && exit.kind == ExitKind::kSignaled) {
      exit.detail = absl::StrCat("it had raised an error, and was stopped (", SignalName(exit.code),
                                 ") as it still ran on");
      exit.kind = ExitKind::kExited;
      exit.code = 1;
    }
  }
  s_.exits.emplace_back(std::move(exit), now_);
  // One beat with exits is under way at a time: many that end at once share the next.
  beat_wanted_ |= s_.exits_sent == s_.exits_acked;
}

void AgentStep::TakeAcks(const Directive& directive) {
  if (directive.round < s_.round || directive.exits_seen < s_.exits_dropped) {
    return;
  }
  const uint32_t seen =
      std::min(directive.exits_seen - s_.exits_dropped, static_cast<uint32_t>(s_.exits.size()));
  if (seen > s_.exits_acked) {
    s_.exits_acked = seen;
    s_.exits_sent = std::max(s_.exits_sent, seen);
    beat_wanted_ |= s_.exits_sent == seen && seen < s_.exits.size();
  }
}

void AgentStep::TakeSignals(const Directive& directive) {
  if (directive.wanted != Wanted::kRun || directive.round != s_.round) {
    return;
  }
  for (const SignalOrder& order : directive.signals) {
    if (order.seq <= s_.signals_done) {
      continue;
    }
    s_.signals_done = order.seq;
    beat_wanted_ = true;
    if (Running() && s_.phase == AgentPhase::kRunning) {
      Emit(SignalRound{s_.round, order.signo});
    }
  }
}

void AgentStep::TakeDrills(const Directive& directive) {
  for (const DrillOrder& order : directive.drills) {
    if (order.seq > s_.drills_done) {
      s_.drills_done = order.seq;
      beat_wanted_ = true;
      Emit(Drill{order});
    }
  }
}

void AgentStep::On(const PeerSought& sought) {
  const bool known = IsOfRound(sought.round) && s_.phase == AgentPhase::kRunning &&
                     sought.node_rank.value < s_.assignment->nodes &&
                     sought.node_rank != s_.assignment->node_rank;
  if (known && s_.sought.insert(sought.node_rank).second) {
    // One beat with them is under way at a time: many that are sought at once share the next.
    beat_wanted_ |= !SoughtUnderWay();
  }
}

// With the next beat: whoever is awaited comes within a moment, or not at all.
void AgentStep::On(const PeersAwaited& awaited) {
  if (IsOfRound(awaited.round) && s_.phase == AgentPhase::kRunning) {
    s_.awaited = awaited.ranks;
  }
}

void AgentStep::TakePeers(const Directive& directive) {
  if (directive.round != s_.round) {
    return;
  }
  bool found = false;
  for (const PeerNode& peer : directive.peers) {
    if (s_.sought.erase(peer.node_rank) != 0 || Mutated(Mutation::kSoughtOnce)) {
      found = true;
      Emit(PeerFound{peer});
    }
  }
  for (const Rank rank : directive.gone) {
    if (std::erase(s_.awaited, rank) != 0) {
      Emit(PeerGone{rank});
    }
  }
  if (directive.ended_well.has_value() && !std::exchange(s_.meets_no_more, true)) {
    Emit(MeetNoMore{*directive.ended_well});
  }
  // Those that did not fit, or came meanwhile.
  beat_wanted_ |= found && !s_.sought.empty() && !SoughtUnderWay();
}

void AgentStep::Obey(const Directive& directive) {
  switch (directive.wanted) {
    case Wanted::kWait:
      return Show(directive.note);
    case Wanted::kRun:
      return ShouldRun(directive);
    case Wanted::kStop:
      return ShouldStop(directive);
    case Wanted::kEnd:
      if (!s_.outcome.has_value()) {
        s_.outcome = directive.outcome;
      }
      return Stop(directive.stop_signal, directive.grace);
  }
}

void AgentStep::ShouldRun(const Directive& directive) {
  const bool again = Mutated(Mutation::kEndedRoundStarts) && directive.round == s_.round;
  // Of the present master; its round may be one of the master before it, which it has taken over.
  if (directive.round <= std::max(s_.round, s_.stop_up_to) && !again) {
    return;  // A2
  }
  const Assignment& assignment = directive.assignment;
  if (assignment.round != directive.round) {
    // A master that is back takes us to be in its last round, of which we have not heard yet: our
    // beat says which ours is, and the answer what is asked of us.
    beat_wanted_ = true;
    return;
  }
  const bool keeps = s_.phase == AgentPhase::kRunning && !assignment.keeps_from.IsNone() &&
                     assignment.keeps_from <= s_.round &&
                     assignment.started_in.size() == s_.workers.size() &&
                     !Mutated(Mutation::kReplacedStopsAll);
  if (s_.phase == AgentPhase::kRunning && !keeps) {
    return Stop(SIGTERM, config_.master_lost_grace);  // A1
  }
  const bool may_start =
      (keeps || s_.phase == AgentPhase::kReady) && !s_.outcome.has_value() && s_.stop_asked == 0;
  if (!may_start) {
    return;
  }
  const bool all_ended_well =
      !assignment.started_in.empty() &&
      std::all_of(assignment.started_in.begin(), assignment.started_in.end(),
                  [](uint32_t n) { return n == 0; });
  if (!keeps && all_ended_well) {
    return NeverHeld(directive.round);
  }
  if (!HasLease() && !Mutated(Mutation::kLeaseIgnored)) {
    beat_wanted_ = true;  // its answer brings the lease, and this directive again
  } else if (!keeps) {
    Start(assignment);
  } else if (s_.clearing) {
    s_.keep_awaits = true;
  } else {
    Keep(assignment);
  }
}

void AgentStep::ShouldStop(const Directive& directive) {
  if (directive.round < s_.round) {
    return;  // it is over
  }
  s_.stop_up_to = std::max(s_.stop_up_to, directive.round);
  if (s_.phase == AgentPhase::kReady) {
    return NeverHeld(directive.round);
  }
  Stop(directive.stop_signal, directive.grace);
  const bool may_drain = directive.stop_is_final && directive.stop_signal != 0;
  if (!may_drain && std::exchange(s_.draining, false)) {
    Emit(EndDrain{s_.round});  // the next round, or the user, is not kept waiting
  }
}

// What this round has asked about workers of other nodes, and been told.
void AgentStep::ForgetOthers() {
  s_.sought.clear();
  s_.awaited.clear();
  s_.meets_no_more = false;
}

// ... and never will be (A2).
void AgentStep::NeverHeld(RoundId round) {
  if (round <= s_.round) {
    return;
  }
  s_.round = round;
  s_.assignment.reset();
  s_.workers.clear();
  s_.workers_started = 0;
  s_.exits.clear();
  s_.exits_dropped = s_.exits_acked = s_.exits_sent = s_.signals_done = 0;
  ForgetOthers();
  beat_wanted_ = true;
}

void AgentStep::Start(const Assignment& assignment) {
  s_.phase = AgentPhase::kRunning;
  s_.round = assignment.round;
  s_.assignment = assignment;
  s_.workers.assign(assignment.workers, WorkerState());
  s_.workers_alive = s_.workers_started = 0;
  for (uint32_t i = 0; i < assignment.workers; ++i) {
    StartWorker(assignment, LocalRank{i});
  }
  s_.exits.clear();
  s_.exits_dropped = s_.exits_acked = s_.exits_sent = s_.signals_done = 0;
  s_.stop_sent = s_.saving = s_.killed = s_.clearing = s_.cleared = s_.keep_awaits = false;
  s_.stop_signal = 0;
  ForgetOthers();
  s_.kill_at = absl::InfiniteFuture();
  s_.held_until = config_.hold ? now_ + kHeldMax : absl::InfiniteFuture();
  s_.store_port = 0;
  Show("");
  Emit(SpawnRound{assignment});
  beat_wanted_ = true;
}

void AgentStep::StartWorker(const Assignment& assignment, LocalRank local) {
  WorkerState& worker = s_.workers[local.value];
  worker = WorkerState();
  worker.started_in =
      assignment.started_in.empty() ? assignment.round.n : assignment.started_in[local.value];
  worker.ended = worker.ended_well = assignment.HasEndedWell(local);
  s_.workers_alive += worker.ended ? 0 : 1;
  s_.workers_started += worker.ended ? 1 : 0;
}

// The numbers of the exits go on (A3); those that the master has seen are no longer needed.
void AgentStep::Keep(const Assignment& assignment) {
  std::vector<LocalRank> starts;
  for (uint32_t i = 0; i < s_.workers.size(); ++i) {
    const WorkerState& worker = s_.workers[i];
    const bool anew = assignment.started_in[i] > worker.started_in ||
                      (Mutated(Mutation::kReplacesEndedWell) && worker.ended_well);
    if (worker.ended && anew) {
      s_.workers_started -= worker.pid != 0 ? 1 : 0;
      StartWorker(assignment, LocalRank{i});
      starts.push_back(LocalRank{i});
    }
  }
  s_.round = assignment.round;
  s_.assignment = assignment;
  s_.exits.erase(s_.exits.begin(), s_.exits.begin() + s_.exits_acked);
  s_.exits_dropped += Mutated(Mutation::kExitsNumberedAnew) ? 0 : s_.exits_acked;
  s_.exits_sent -= s_.exits_acked;
  s_.exits_acked = 0;
  s_.cleared = s_.cleared && starts.empty();
  ForgetOthers();
  if (config_.hold && !starts.empty()) {
    s_.held_until = now_ + kHeldMax;
  }
  Emit(KeepRound{assignment, std::move(starts)});
  beat_wanted_ = true;
}

bool AgentStep::IsOfRound(RoundId round) const {
  const bool kept = s_.assignment.has_value() && !s_.assignment->keeps_from.IsNone() &&
                    round >= s_.assignment->keeps_from && round < s_.round;
  return round == s_.round || kept;
}

void AgentStep::SetPaused(bool paused) {
  if (paused == s_.paused) {
    return;
  }
  s_.paused = paused;
  s_.held_until = absl::InfiniteFuture();  // the debugger has its table, or has had it
  beat_wanted_ = true;
  if (Lives()) {
    Emit(SignalRound{s_.round, paused ? SIGSTOP : SIGCONT});
  }
  if (config_.in_process) {
    return;
  }
  // Without one that goes on (the connection broke), the next look at the lease kills; also where
  // they were started in this pause, and have never had one.
  if (!paused && Lives() && !s_.ended_locally && s_.lease_until == absl::InfinitePast()) {
    s_.lease_until = now_;
  }
  const bool leased = !paused && s_.lease_until != absl::InfinitePast();
  Emit(SetLease{leased ? s_.lease_until : absl::InfiniteFuture()});
}

void AgentStep::OpenStoreNow() {
  s_.store_opening = true;
  s_.store_port = 0;
  Emit(OpenStore{});
}

void AgentStep::EndLocally(int32_t exit_code, std::string headline) {
  if (!s_.outcome.has_value()) {
    s_.outcome = JobOutcome{exit_code, std::move(headline)};
    s_.ended_locally = true;
  }
}

void AgentStep::On(const RestShown&) {
  if (s_.showing) {
    Finished(/*all_shown=*/true);
  }
}

void AgentStep::Finished(bool all_shown) {
  if (s_.admitted && s_.link_up) {
    if (s_.exits_acked < s_.exits.size()) {
      SendBeat();
    }
    Emit(SendToMaster{Leave{s_.node, s_.incarnation, s_.outcome->headline}});
  }
  s_.showing = false;
  s_.finished = true;
  Emit(Finish{*s_.outcome, all_shown});
}

void AgentStep::MoveOn() {
  if (MayClose()) {
    Close();
  }
  if (s_.showing || s_.finished) {
    return;
  }
  const bool holds_nothing = s_.phase == AgentPhase::kReady || s_.cleared;
  if (s_.outcome.has_value() && holds_nothing) {
    s_.showing = true;
    beat_wanted_ = s_.exits_sent < s_.exits.size();  // nothing else of it is news now
    Emit(ShowRest{});
    return;
  }
  if (s_.phase != AgentPhase::kStopping || !s_.cleared || s_.outcome.has_value()) {
    return;
  }
  if (!s_.store_opening && s_.store_port == 0) {
    OpenStoreNow();
  }
  if (s_.exits_acked == s_.exits.size()) {
    s_.phase = AgentPhase::kReady;
    beat_wanted_ = true;
    NeverHeld(s_.stop_up_to);
  }
}

}  // namespace muster
