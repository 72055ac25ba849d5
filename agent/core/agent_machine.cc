#include "agent/core/agent_machine.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/core/agent_step.h"
#include "agent/core/lease_watch.h"
#include "proto/base/mutation.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// Beats whose answers may still come: of more, the oldest would hardly prolong the lease.
constexpr size_t kUnansweredMax = 64;

}  // namespace

std::vector<AgentEffect> Step(const AgentConfig& config, AgentState& state, const AgentEvent& event,
                              absl::Time now) {
  return AgentStep(config, state, now).Run(event);
}

std::vector<AgentEffect> AgentStep::Run(const AgentEvent& event) {
  if (s_.finished) {
    return {};
  }
  if (!s_.begun) {
    s_.begun = true;
    s_.link_lost_at = now_;
    OpenStoreNow();
  }
  CheckStandstill();
  if (std::holds_alternative<TimeElapsed>(event)) {
    s_.timer_at = absl::InfinitePast();  // it is used up
  }
  CheckDeadlines();  // first: what the shepherd killed at the end of the lease was stopped by us
  std::visit([this](const auto& one) { On(one); }, event);
  CheckDeadlines();
  CheckUserStop();
  MoveOn();
  SendWhatIsDue();
  ArmTimer();
  return std::move(out_);
}

void AgentStep::On(const LinkUp&) {
  s_.link_up = true;
  s_.admitted = false;
  s_.beats_unanswered.clear();
  const bool port_comes = s_.phase == AgentPhase::kReady && s_.store_opening;
  s_.first_join = absl::InfiniteFuture();
  // With the port in it, the first Join is all that a round needs.
  s_.next_join = port_comes ? now_ + config_.join_retry : now_;
}

void AgentStep::On(const LinkDown& down) {
  if (s_.link_lost_at == absl::InfiniteFuture()) {
    s_.link_lost_at = now_;
  }
  s_.link_lost_why = down.why;
  s_.link_told = down.told;
  s_.link_up = false;
  s_.admitted = false;
  SetPaused(false);
  Show(down.told ? down.why : absl::StrCat(kNoConnection, down.why.empty() ? "" : ": ", down.why));
  if (down.final && !s_.outcome.has_value()) {
    EndLocally(1, absl::StrCat("lost the connection to the master", down.why.empty() ? "" : ": ",
                               down.why));
    Stop(SIGTERM, JobIsEnded() ? config_.grace : config_.master_lost_grace);
    LiftLease();
  }
}

void AgentStep::On(const MessageReceived& received) {
  std::visit([this](const auto& message) { OnMessage(message); }, received.message);
}

void AgentStep::On(const StorePortReady& ready) {
  s_.store_opening = false;
  s_.store_port = ready.port;
  s_.worker_ports = ready.worker_ports;
  beat_wanted_ = true;
  if (s_.link_up && !s_.admitted && s_.first_join == absl::InfiniteFuture()) {
    s_.next_join = now_;
  }
}

void AgentStep::On(const StorePortFailed& failed) {
  s_.store_opening = false;
  EndLocally(1, failed.why);
  Stop(SIGTERM, config_.master_lost_grace);
}

void AgentStep::On(const UserStop& stop) {
  if (stop.leaves || s_.leaves != 0) {
    return LeaveJob(stop);
  }
  s_.stop_asked = stop.signo != 0 ? stop.signo : s_.stop_asked != 0 ? s_.stop_asked : SIGKILL;
  s_.stop_told = !stop.told.empty()
                     ? stop.told
                     : absl::StrCat("stopped by the user (", SignalName(s_.stop_asked), ")");
  s_.kill_asked |= stop.now;
  beat_wanted_ = true;
}

// The master hears by the next beat that the workers end, and that the round has to go on, or end,
// without them. Nothing of the job is asked any more here.
void AgentStep::LeaveJob(const UserStop& stop) {
  if (!s_.outcome.has_value()) {
    s_.leaves = stop.signo;
    EndLocally(128 + stop.signo, stop.told);
    Stop(stop.signo, config_.grace);
    beat_wanted_ = true;
  }
  if (stop.now) {
    Kill();
  }
}

void AgentStep::On(const UserRestart&) {
  s_.restart_asked = s_.round;
  beat_wanted_ = true;
}

// launch hears of it from us, and orders what follows. Where it has died of the same (the shell of
// a batch script ends, and all that it runs is killed), the workers are given their time here.
void AgentStep::On(const SchedulerSignal& signal) {
  ++s_.heard[signal.signo];
  beat_wanted_ = true;
  if (JobIsEnded() && s_.ended_locally && Lives() && !s_.killed) {
    s_.kill_at = now_ + config_.grace;
    LiftLease();
  }
}

// No other round will come, so none has to be fenced off from these workers.
void AgentStep::LiftLease() {
  if (JobIsEnded() && s_.ended_locally && s_.lease_until != absl::InfinitePast()) {
    s_.lease_until = absl::InfinitePast();
    Emit(SetLease{absl::InfiniteFuture()});
  }
}

void AgentStep::On(const LeaseEnded&) {
  if (StandsStill() || !HasLease()) {
    Kill();
  }
}

void AgentStep::OnMessage(const Admitted& admitted) {
  const bool new_master = admitted.epoch > s_.epoch_max;
  const bool older = admitted.epoch < s_.epoch_max && !Mutated(Mutation::kLowerEpochBelieved);
  const bool stale = older || (!new_master && admitted.incarnation < s_.incarnation);
  if (admitted.life != config_.join.life || !s_.link_up || stale) {
    return;  // A5
  }
  if (s_.admitted && !new_master && admitted.incarnation == s_.incarnation) {
    return;
  }
  if (new_master) {
    s_.epoch_max = admitted.epoch;
    s_.exits_acked = 0;
    s_.drills_done = 0;
  }
  const bool again = s_.incarnation != Incarnation{} && absl::StartsWith(s_.note, kNoConnection);
  if (StandsStill() && admitted.incarnation != s_.incarnation) {
    Kill();  // the master has given them up
  }
  s_.admitted = true;
  s_.node = admitted.node;
  s_.incarnation = admitted.incarnation;
  s_.beat_interval = admitted.beat_interval;
  s_.lease = admitted.lease;
  s_.master_returns = admitted.journal;
  s_.exits_sent = s_.exits_acked;
  s_.beats_unanswered.clear();
  s_.link_lost_at = absl::InfiniteFuture();
  s_.answer_by = now_ + s_.lease;
  // It answers a Join of this link; which one is not said, so the earliest counts, and only once.
  // A Join does not renew what the master counts for a node that it has: who runs workers needs the
  // answer to a beat.
  if (s_.phase == AgentPhase::kReady) {
    RenewLease(s_.first_join);
  }
  s_.first_join = absl::InfinitePast();
  Show(again ? std::string(kConnectedAgain) : "");
  beat_wanted_ = true;
}

void AgentStep::OnMessage(const Refused& refused) {
  // Also while the link is down: a handshake that was refused (another secret, another build) never
  // came up.
  if (refused.life == config_.join.life && !s_.admitted) {
    EndLocally(1, refused.reason);
    Stop(SIGTERM, config_.master_lost_grace);
  }
}

void AgentStep::OnMessage(const Directive& directive) {
  if (!s_.admitted || directive.node != s_.node || directive.incarnation != s_.incarnation) {
    return;  // A5
  }
  const auto answered = s_.beats_unanswered.find(directive.beat_seq);
  if (answered != s_.beats_unanswered.end()) {
    const absl::Time sent = answered->second;
    s_.beats_unanswered.erase(s_.beats_unanswered.begin(), std::next(answered));
    RenewLease(Mutated(Mutation::kLeaseFromReceipt) ? now_ : sent);
  }
  const bool pause_ends = s_.paused && !directive.paused && !config_.in_process;
  if (StandsStill() || (pause_ends && now_ >= s_.lease_until)) {
    beat_wanted_ = true;  // nothing goes on without a lease: its answer says all this again
    return;
  }
  SetPaused(directive.paused);
  TakeAcks(directive);
  TakeSignals(directive);
  TakeDrills(directive);
  TakePeers(directive);
  for (const std::string& notice : directive.notices) {
    Emit(ShowNotice{notice});
  }
  Obey(directive);
}

// From the SEND time: the master counts from receipt, which is later.
void AgentStep::RenewLease(absl::Time sent) {
  const absl::Time until = sent + s_.lease;
  if (config_.in_process || until <= s_.lease_until || until <= now_) {
    return;
  }
  s_.lease_until = until;
  s_.still_until = absl::InfinitePast();
  s_.answer_by = std::max(s_.answer_by, until);
  if (!s_.paused) {
    Emit(SetLease{until});
  }
}

bool AgentStep::HasLease() const {
  return config_.in_process || s_.paused || now_ < s_.lease_until;
}

// All of a job may have stood still, the master as well: what was not heard meanwhile tells
// nothing.
void AgentStep::CheckStandstill() {
  const absl::Time due = std::max(s_.timer_at, s_.stepped_at);
  s_.stepped_at = now_;
  if (now_ - due <= kStandstillSeen || s_.paused) {
    return;
  }
  const absl::Duration rest = now_ - due;
  s_.link_lost_at += rest;
  s_.kill_at += rest;
  s_.answer_by = std::max(s_.answer_by, now_ + s_.lease);
  beat_wanted_ = true;
  const bool over = s_.lease_until != absl::InfinitePast() && now_ >= s_.lease_until;
  if (config_.in_process || !Lives() || s_.killed || !(over || StandsStill())) {
    return;
  }
  s_.lease_until = absl::InfinitePast();
  s_.still_until = now_ + s_.lease;
  s_.held_until = std::max(s_.held_until, s_.still_until);  // who is held stays so
  if (Mutated(Mutation::kGoesOnUnanswered)) {
    s_.lease_until = s_.still_until;
    s_.still_until = absl::InfinitePast();
    Emit(SetLease{s_.lease_until});
  }
}

void AgentStep::CheckLease() {
  const bool over = !s_.paused && s_.lease_until != absl::InfinitePast() && now_ >= s_.lease_until;
  if (s_.admitted && (over || now_ >= s_.answer_by)) {
    s_.admitted = false;
    s_.link_lost_at = s_.paused ? absl::InfiniteFuture() : now_;
    s_.link_lost_why = "no answer within the lease";
    s_.link_told = false;
    s_.next_join = now_;
  }
  if (over || (StandsStill() && now_ >= s_.still_until)) {
    s_.lease_until = absl::InfinitePast();
    Kill();  // A4
  }
}

// A master that is not there yet is waited for like a node. One that has started a round knows the
// round only as long as it lives, or is back within the lease.
absl::Duration AgentStep::MasterWait() const {
  return s_.round.IsNone() ? config_.join_timeout : s_.lease;
}

void AgentStep::CheckDeadlines() {
  if (!config_.in_process) {
    CheckLease();
  }
  const bool may_wait = s_.paused && s_.link_up;  // the master stands still as well
  if (!s_.admitted && !s_.outcome.has_value() && !may_wait) {
    if (Lives() && !s_.master_returns && now_ >= s_.link_lost_at + kReconnectWindow) {
      Stop(SIGTERM, config_.master_lost_grace);
    }
    if (now_ >= s_.link_lost_at + MasterWait()) {
      EndLocally(1, absl::StrCat(s_.link_told ? kNotTakenIn : kNoConnection, " for ",
                                 ShortDuration(MasterWait()), s_.link_lost_why.empty() ? "" : ": ",
                                 s_.link_lost_why));
      Stop(SIGTERM, config_.master_lost_grace);
    }
  }
  if (now_ >= s_.held_until) {
    s_.held_until = absl::InfiniteFuture();
    Emit(ReleaseHeld{s_.round});
  }
  if (now_ >= s_.kill_at) {
    Kill();
  }
  // Nobody is there any more to show it to, if there is anything.
  if (s_.showing && !s_.admitted && !may_wait && now_ >= s_.link_lost_at + s_.lease) {
    Finished(/*all_shown=*/s_.round.IsNone());
  }
}

// The master orders the stop on all nodes; without it this agent stops what is its own.
void AgentStep::CheckUserStop() {
  if (s_.stop_asked == 0) {
    return;
  }
  if (!s_.admitted && !s_.outcome.has_value()) {
    EndLocally(128 + s_.stop_asked, s_.stop_told);
    Stop(s_.stop_asked, config_.master_lost_grace);
  }
  if (s_.kill_asked) {
    Kill();
  }
}

void AgentStep::SendWhatIsDue() {
  if (!s_.link_up || s_.finished) {
    return;
  }
  if (!s_.admitted) {
    if (now_ >= s_.next_join && !s_.outcome.has_value()) {
      SendJoin();
    }
  } else if (beat_wanted_ || now_ >= s_.next_beat) {
    SendBeat();
  }
}

void AgentStep::SendJoin() {
  Join join = config_.join;
  join.store_port = s_.store_port;
  join.worker_ports = s_.worker_ports;
  join.holds = s_.phase == AgentPhase::kReady ? RoundId() : s_.round;
  s_.first_join = std::min(s_.first_join, now_);
  s_.next_join = now_ + config_.join_retry;
  Emit(SendToMaster{std::move(join)});
}

void AgentStep::SendBeat() {
  Beat beat;
  beat.node = s_.node;
  beat.incarnation = s_.incarnation;
  beat.seq = ++s_.beat_seq;
  beat.phase = s_.phase;
  beat.round = s_.round;
  beat.store_port = s_.phase == AgentPhase::kReady ? s_.store_port : uint16_t{0};
  beat.workers_alive = s_.workers_alive;
  beat.workers_started = s_.workers_started;
  if (config_.tell_pids && s_.workers_started == s_.workers.size()) {
    for (const WorkerState& worker : s_.workers) {
      beat.pids.push_back(worker.pid);
    }
  }
  const uint32_t from = Mutated(Mutation::kExitsSentOnce) ? s_.exits_sent : s_.exits_acked;
  beat.exits_from = s_.exits_dropped + from;
  // As many as fit into one message; the others go when these are acknowledged.
  size_t bytes = 0;
  size_t end = from;
  while (end < s_.exits.size() && beat.exits.size() < kExitsPerBeatMax &&
         bytes < kExitBytesPerBeatMax) {
    const auto& [exit, seen] = s_.exits[end++];
    beat.exits.push_back(exit);
    beat.exits.back().age = now_ - seen;
    bytes += exit.detail.size() + exit.error_message.size() + exit.stderr_tail.size();
  }
  s_.exits_sent = static_cast<uint32_t>(end);
  beat.signals_done = s_.signals_done;
  beat.drills_done = s_.drills_done;
  beat.paused = s_.paused;
  beat.stop_asked = s_.stop_asked;
  beat.kill_asked = s_.kill_asked;
  beat.leaves = s_.leaves;
  beat.restart_asked = s_.restart_asked;
  for (const NodeRank node : s_.sought) {
    if (beat.sought.size() < kPeersPerBeatMax) {
      beat.sought.push_back(node);
      s_.sought_in = beat.seq;
    }
  }
  beat.awaited = s_.awaited;
  for (const auto& [signo, times] : s_.heard) {
    beat.heard.push_back({signo, times});
  }
  beat.use = s_.use;
  if (Mutated(Mutation::kSoughtOnce)) {
    s_.sought.clear();
  }
  s_.beats_unanswered[beat.seq] = now_;
  if (s_.beats_unanswered.size() > kUnansweredMax) {
    s_.beats_unanswered.erase(s_.beats_unanswered.begin());
  }
  s_.next_beat = now_ + s_.beat_interval;
  beat_wanted_ = false;
  Emit(SendToMaster{std::move(beat)});
}

void AgentStep::Show(const std::string& note) {
  if (note != s_.note) {
    s_.note = note;
    Emit(ShowWaiting{note});
  }
}

absl::Time AgentStep::NextDeadline() const {
  absl::Time at = Lives() && !s_.killed ? s_.kill_at : absl::InfiniteFuture();
  at = std::min(at, s_.held_until);
  if (s_.link_up && s_.admitted) {
    at = std::min(at, s_.next_beat);
  }
  if (!config_.in_process) {
    const bool leased = !s_.paused && s_.lease_until != absl::InfinitePast();
    at = std::min(at, leased ? s_.lease_until : at);
    at = std::min(at, StandsStill() ? s_.still_until : at);
    at = std::min(at, s_.admitted ? s_.answer_by : at);
  }
  if (!s_.admitted && !s_.outcome.has_value()) {
    at = std::min(at, s_.link_up ? s_.next_join : at);
    at = std::min(at, s_.link_lost_at + MasterWait());
    if (Running() && !s_.master_returns && !s_.stop_sent && !s_.killed) {
      at = std::min(at, s_.link_lost_at + kReconnectWindow);
    }
  }
  if (s_.showing && !s_.admitted) {
    at = std::min(at, s_.link_lost_at + s_.lease);
  }
  return at;
}

void AgentStep::ArmTimer() {
  const absl::Time at = s_.finished ? absl::InfiniteFuture() : NextDeadline();
  if (at != s_.timer_at) {
    s_.timer_at = at;
    Emit(SetTimer{at});
  }
}

}  // namespace muster
