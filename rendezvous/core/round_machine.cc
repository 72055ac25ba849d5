#include "rendezvous/core/round_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/text.h"
#include "rendezvous/core/liveness.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

// Orders kept of one round; an agent that far behind is lost soon.
constexpr size_t kSignalsMax = 64;

void OnSignal(Machine& m, int32_t signo) {
  RoundState& s = m.state;
  if (s.phase != JobPhase::kRunning) {
    return;  // nothing runs, or it is being ended
  }
  const uint32_t seq = s.signals.empty() ? 1 : s.signals.back().seq + 1;
  s.signals.push_back({seq, signo});
  if (s.signals.size() > kSignalsMax) {
    s.signals.erase(s.signals.begin());
  }
  SendToMembers(m);
}

void OnPause(Machine& m, bool paused) {
  RoundState& s = m.state;
  const bool may_pause = s.phase == JobPhase::kGathering || s.phase == JobPhase::kRunning;
  if (paused == s.paused || !may_pause) {
    return;  // a stop goes on
  }
  if (paused) {
    s.paused = true;
    s.paused_since = m.now;
  } else {
    Resume(m);
  }
  SendToAll(m);
  TryStart(m);
}

// The job's clocks stood still for `rest`: what began before that began so much later.
void MoveClocks(RoundState& s, absl::Duration rest) {
  s.begun += rest;
  s.gathering_since += rest;
  s.last_restart.decided += rest;
  s.last_restart.not_before += rest;
  s.last_call_at += rest;
  s.round_began += rest;
  s.grow_at += rest;
  s.next.since += rest;
  s.next_tell += rest;
}

void NoteStandstill(Machine& m, absl::Duration length) {
  RoundState& s = m.state;
  s.stood_still =
      absl::StrCat(m.config.users_at_nodes ? "the master" : "this launch", " stood still for ",
                   ShortDuration(length), ", longer than the lease of ",
                   ShortDuration(m.config.lease), ": all nodes have ended their workers");
  s.stood_still_tells = m.now + SuspectTime(m.config) + m.config.lease_slack;
  absl::Time heard = s.stepped_at;
  for (const Member& member : s.members) {
    heard = std::min(heard, s.nodes.at(member.node).heard);
  }
  // A lease counts from when the beat was sent.
  s.stood_still_from = heard + m.config.lease - m.config.lease_slack;
}

// The master itself was stopped or starved, and perhaps all of the job with it: what was sent
// meanwhile waits to be read, or is still to be sent. That time counts against nobody, nor as the
// job's, and who waits longer takes no place too early.
void CheckStall(Machine& m) {
  RoundState& s = m.state;
  const absl::Duration behind = m.now - s.timer_at;
  if (s.paused || behind <= kStallTolerance) {
    return;
  }
  if (const absl::Duration length = m.now - s.stepped_at; length > m.config.lease) {
    NoteStandstill(m, length);
  }
  MoveClocks(s, behind);
  s.stop_began += behind;  // a pause ends before a stop begins
  for (auto& [place, vacancy] : s.next.vacant) {
    vacancy.free_at += vacancy.free_at > s.timer_at ? behind : absl::ZeroDuration();
  }
  RenewAll(m.config, s, m.now);
  s.timer_at = m.now;
}

void OnTime(Machine& m) {
  RoundState& s = m.state;
  if (s.paused) {
    return;
  }
  ExpireNodes(m);
  if (m.now >= s.begun + m.config.time_limit) {
    StopForTimeLimit(m);
  }
  TryStart(m);
  TellWaiting(m);
  TellStopping(m);
  MaybeEnded(m);  // a job from the journal of which nobody is left
}

absl::Time NextDeadline(const Machine& m) {
  const RoundState& s = m.state;
  if (s.paused) {
    return absl::InfiniteFuture();
  }
  absl::Time at = std::min({NextExpiry(s), RefilledAt(m.config, s), NextReplacement(m)});
  const bool over = s.phase == JobPhase::kEnding || s.phase == JobPhase::kEnded;
  if (!over && !(s.phase == JobPhase::kStopping && s.stop_is_final)) {
    at = std::min(at, s.begun + m.config.time_limit);
  }
  if (!over) {
    at = std::min(at, s.grow_at);
    at = s.comebacks_due.empty() ? at : std::min(at, s.comebacks_due.begin()->first);
  }
  if (s.phase == JobPhase::kStopping) {
    at = std::min(at, s.next_tell);
  }
  if (s.phase == JobPhase::kGathering) {
    const absl::Time restart_at = s.last_restart.not_before;
    at = std::min({at, s.next_tell, m.now < restart_at ? restart_at : s.last_call_at});
    for (const auto& [id, one] : s.set_aside) {
      at = one.until > m.now ? std::min(at, one.until) : at;
    }
    if (ReadyCount(m.config, s, m.now) < m.config.nodes_min) {
      at = std::min(at, s.gathering_since + m.config.join_timeout);
    }
  }
  return at;
}

void Dispatch(Machine& m, const RoundEvent& event) {
  if (const auto* beat = std::get_if<BeatReceived>(&event)) {
    OnBeat(m, beat->beat);
  } else if (const auto* join = std::get_if<JoinReceived>(&event)) {
    OnJoin(m, *join);
  } else if (const auto* put_off = std::get_if<JoinPutOff>(&event)) {
    LoseTheOneBefore(m, put_off->join);
  } else if (const auto* leave = std::get_if<LeaveReceived>(&event)) {
    OnLeave(m, leave->leave);
  } else if (const auto* closed = std::get_if<LinkClosed>(&event)) {
    OnLinkClosed(m, *closed);
  } else if (const auto* failed = std::get_if<StartFailed>(&event)) {
    OnStartFailed(m, *failed);
  } else if (const auto* stop = std::get_if<StopAsked>(&event)) {
    OnUserStop(m, *stop);
  } else if (const auto* signal = std::get_if<SignalAsked>(&event)) {
    OnSignal(m, signal->signo);
  } else if (const auto* pause = std::get_if<PauseAsked>(&event)) {
    OnPause(m, pause->paused);
  } else if (const auto* drill = std::get_if<DrillAsked>(&event)) {
    OnDrill(m, *drill);
  } else if (const auto* restart = std::get_if<RestartAsked>(&event)) {
    OnRestart(m, *restart);
  } else if (const auto* news = std::get_if<NewsForUser>(&event)) {
    TellUser(m, {news->text});
  } else {
    OnTime(m);
  }
}

}  // namespace

void Resume(Machine& m) {
  RoundState& s = m.state;
  if (!s.paused) {
    return;
  }
  s.paused = false;
  MoveClocks(s, m.now - s.paused_since);
  RenewAll(m.config, s, m.now);
}

std::vector<RoundEffect> Step(const RoundConfig& config, RoundState& state, const RoundEvent& event,
                              absl::Time now) {
  Machine m{config, state, now, {}, NodeId()};
  if (state.begun == absl::InfinitePast()) {
    state.begun = now;
    BeginGathering(m, /*restarting=*/false);
  }
  CheckStall(m);
  state.stepped_at = now;
  Refill(m);
  ForgetGone(m);
  Dispatch(m, event);
  SendComebacks(m);
  TryGrow(m);
  if (config.journal) {
    Keep(m);
  }
  const bool fired = std::holds_alternative<TimePassed>(event);
  // Not before now: a timer that lies behind tells the next event of a stall.
  if (const absl::Time at = std::max(NextDeadline(m), now); at != state.timer_at || fired) {
    state.timer_at = at;
    m.out.push_back(ArmTimer{at});
  }
  return std::move(m.out);
}

}  // namespace muster
