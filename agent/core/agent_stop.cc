// The end of the round an agent holds: stop, the time to save, clearing.
#include <algorithm>
#include <csignal>

#include "agent/core/agent_step.h"

namespace muster {
namespace {

// CloseRound::drain: a filter behind a worker (exec > >(sort), in bash) writes after its end. What
// outlives one that has failed is less often a filter.
constexpr absl::Duration kDrain = absl::Seconds(3);
constexpr absl::Duration kDrainOfFailed = absl::Milliseconds(500);

}  // namespace

void AgentStep::Stop(int32_t signo, absl::Duration grace) {
  if (s_.phase == AgentPhase::kReady) {
    return;
  }
  if (s_.phase == AgentPhase::kRunning) {
    s_.phase = AgentPhase::kStopping;
    ForgetOthers();
    beat_wanted_ = true;
  }
  s_.held_until = absl::InfiniteFuture();
  if (!Lives() || s_.killed) {
    return;
  }
  if (signo == 0 || StandsStill()) {
    return Kill();  // no time without a lease (A4)
  }
  if (!s_.stop_sent || signo != s_.stop_signal) {
    s_.stopped_at = s_.stop_sent ? s_.stopped_at : now_;
    s_.stop_sent = true;
    s_.stop_signal = signo;
    Emit(SignalRound{s_.round, signo, /*stops=*/true});
    Emit(SignalRound{s_.round, SIGCONT});  // who stands still could not end, nor save anything
  }
  s_.kill_at = std::min(s_.kill_at, now_ + grace);
}

void AgentStep::Kill() {
  s_.kill_at = s_.held_until = absl::InfiniteFuture();
  s_.still_until = absl::InfinitePast();
  if (!Lives() || s_.killed) {
    return;
  }
  s_.phase = AgentPhase::kStopping;
  ForgetOthers();
  s_.stopped_at = s_.stop_sent ? s_.stopped_at : now_;
  s_.saving = false;
  s_.killed = true;
  s_.clearing = true;
  Emit(KillRound{s_.round});
}

// Not yet where one that failed may be replaced: what serves the others of the round stays.
bool AgentStep::MayClose() const {
  if (s_.phase == AgentPhase::kReady || Lives() || s_.clearing || s_.cleared) {
    return false;
  }
  const bool stops = s_.phase == AgentPhase::kStopping || s_.outcome.has_value();
  return stops || s_.assignment->started_in.empty() || AllEndedWell();
}

// None where they were stopped: what they left was signalled with them, and has had its time.
absl::Duration AgentStep::Drain() const {
  return s_.phase != AgentPhase::kRunning ? absl::ZeroDuration()
         : AllEndedWell()                 ? kDrain
                                          : kDrainOfFailed;
}

bool AgentStep::AllEndedWell() const {
  return std::all_of(s_.workers.begin(), s_.workers.end(),
                     [](const WorkerState& worker) { return worker.ended_well; });
}

// A shell dies of the signal that the program below it takes as its time to save.
void AgentStep::Close() {
  s_.held_until = absl::InfiniteFuture();
  if (s_.stop_sent && !s_.alone && now_ < s_.kill_at) {
    s_.saving = true;
    Emit(AwaitGroups{s_.round});
    return;
  }
  s_.clearing = true;
  const absl::Duration drain = Drain();
  s_.draining = drain > absl::ZeroDuration();
  Emit(CloseRound{s_.round, drain});
}

void AgentStep::On(const GroupsEnded& ended) {
  if (ended.round == s_.round && s_.saving) {
    s_.saving = false;
    s_.alone = true;
  }
}

}  // namespace muster
