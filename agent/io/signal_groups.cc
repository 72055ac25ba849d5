#include "agent/io/signal_groups.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>

#include "agent/io/process_tree.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

constexpr absl::Duration kStopSpreads = absl::Seconds(2);  // to all processes of a group
constexpr absl::Duration kStandstillWithin = absl::Milliseconds(500);
// While what was stopped saves, for what ends below another process than ours is told by no signal.
// Most ends at once, and is only not dead yet.
constexpr absl::Duration kLookFirst = absl::Milliseconds(2);
constexpr absl::Duration kLookLast = absl::Milliseconds(20);
constexpr int kLookSeldom = 5;  // times what a look takes

bool IsForPrograms(int signo) { return signo == SIGUSR1 || signo == SIGUSR2; }

bool Pauses(int signo) { return signo == SIGSTOP || signo == SIGCONT; }

}  // namespace

void SignalGroups::End() {
  workers_.clear();
  helpers_.clear();
  told_.clear();
  hear_.clear();
  deaf_.clear();
  stopped_.clear();
  next_ = absl::InfiniteFuture();
}

// Looked for before the first one is told: what a process starts because it was told is not meant.
void SignalGroups::Signal(int signo, bool stops, const std::map<pid_t, bool>& living,
                          absl::Time reached) {
  const std::vector<ProcessPlace> places = PlacesBelow(/*others_jobs=*/Pauses(signo));
  SeeWhatWorkersWrap(places);
  std::map<pid_t, bool> groups = Groups(places, !stops && IsForPrograms(signo), reached);
  for (const auto& [worker, tell] : living) {
    groups[worker] = tell;
  }
  if (!Pauses(signo) && (stops || !IsForPrograms(signo))) {
    SeeWhoHears(signo, places);
  }
  if (signo == SIGSTOP) {
    stopped_at_ = BootNow();
    stopped_.clear();
  } else if (signo == SIGCONT) {
    AwaitStandstill();
  }
  for (const auto& [group, tell] : groups) {
    if (tell && kill(-group, signo) == 0 && signo == SIGSTOP) {
      stopped_.insert(group);
    }
    if (!Pauses(signo)) {
      told_.insert(group);
    }
  }
}

// setsid -w: by the time that it is asked who still saves, setsid itself has died of the signal.
void SignalGroups::SeeWhatWorkersWrap(const std::vector<ProcessPlace>& places) {
  std::set<pid_t> wrappers;
  for (const ProcessPlace& place : places) {
    if (place.is_setsid && workers_.count(place.pid) != 0) {
      wrappers.insert(place.pid);
    } else if (wrappers.count(place.parent) != 0 && place.session == place.pid) {
      workers_.insert(place.pid);
    }
  }
}

// Before it is told: who saves may ignore more of them.
void SignalGroups::SeeWhoHears(int signo, const std::vector<ProcessPlace>& places) {
  for (const ProcessPlace& place : places) {
    if (hear_.count(place.pid) == 0 && !Ignores(place.pid, signo)) {
      hear_.insert(place.pid);
      deaf_.erase(place.pid);
    } else if (hear_.count(place.pid) == 0) {
      deaf_.insert(place.pid);
    }
  }
}

// Linux gives a child the SIGSTOP that its group got while it was being made, also if a SIGCONT has
// followed by then: it would stand still in a group that goes on. When all do, none is being made.
void SignalGroups::AwaitStandstill() const {
  const absl::Time until = std::min(stopped_at_ + kStopSpreads, BootNow() + kStandstillWithin);
  while (BootNow() < until && !StandStill(stopped_)) {
    const timespec pause = {0, 1000000};
    nanosleep(&pause, nullptr);
  }
}

void SignalGroups::Await() {
  next_ = absl::InfinitePast();
  pause_ = kLookFirst;
}

bool SignalGroups::AwaitedHaveEnded(absl::Time now) {
  if (now < next_) {
    return false;
  }
  const bool any = AnyLives();
  next_ = any ? now + std::max(pause_, kLookSeldom * (BootNow() - now)) : absl::InfiniteFuture();
  pause_ = std::min(2 * pause_, kLookLast);
  return !any;
}

bool SignalGroups::AnyLives() const {
  std::set<pid_t> deaf = deaf_;
  for (const ProcessPlace& place : PlacesBelow(/*others_jobs=*/true)) {
    if (deaf.count(place.parent) != 0 && hear_.count(place.pid) == 0) {
      deaf.insert(place.pid);
    }
    if (!place.ended && told_.count(place.group) != 0 && IsOfJob(place.session) &&
        deaf.count(place.pid) == 0) {
      return true;
    }
  }
  return false;
}

// False: all of it has the signal already.
std::map<pid_t, bool> SignalGroups::Groups(const std::vector<ProcessPlace>& places,
                                           bool of_job_only, absl::Time reached) const {
  const pid_t own_session = getsid(0);
  std::map<pid_t, bool> out;
  for (const ProcessPlace& place : places) {
    if (place.ended || place.group <= 1 || place.group == getpgrp() ||
        helpers_.count(place.group) != 0 || (of_job_only && !IsOfJob(place.session))) {
      continue;
    }
    const absl::Time at_most = place.started + absl::Milliseconds(10);  // told in ticks
    out[place.group] |= place.session != own_session || at_most > reached;
  }
  return out;
}

bool SignalGroups::IsOfJob(pid_t session) const {
  return session == getsid(0) || workers_.count(session) != 0;
}

}  // namespace muster
