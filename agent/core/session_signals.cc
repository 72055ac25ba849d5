#include "agent/core/session_signals.h"

namespace muster {
namespace {

// From the scheduler's signal to the order that launch makes of it, on a loaded machine.
constexpr absl::Duration kSameSignal = absl::Seconds(3);
// pbs_mom reads all of /proc before it signals what it has found.
constexpr absl::Duration kLookLasts = absl::Milliseconds(300);

}  // namespace

bool IsForSession(const SignalSender& sender) {
  return sender.by_kill && sender.user == 0 && !sender.of_session;
}

void SessionSignals::Heard(int signo, absl::Time now) { heard_[signo] = now; }

absl::Time SessionSignals::Reached(int signo, absl::Time now) {
  const auto heard = heard_.find(signo);
  if (heard == heard_.end()) {
    return absl::InfinitePast();
  }
  const absl::Time at = heard->second;
  heard_.erase(heard);
  return now < at + kSameSignal ? at - kLookLasts : absl::InfinitePast();
}

}  // namespace muster
