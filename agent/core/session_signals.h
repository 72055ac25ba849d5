// Where a scheduler signals every process of a session by itself, as PBS does: which workers have a
// signal already that is about to be passed on to them. Values only.
//
// Rules:
//  B1 what the session was sent stands for one passed on: the first within kSameSignal, if any;
//  B2 a worker so young that the scheduler may have looked at the processes before it was there is
//     told: twice is better than never;
//  B3 the scheduler is root, and outside the session. A user who signals processes of ours by name
//     or group does not mean the workers' groups, and timeout(1) is in the session.
#pragma once

#include <cstdint>
#include <map>

#include "absl/time/time.h"

namespace muster {

struct SignalSender {
  bool by_kill = false;  // else the kernel: a terminal's key, say
  uint32_t user = 0;
  bool of_session = false;
};

// Whether a signal that one process of the session was sent is one that all of it were (B3).
bool IsForSession(const SignalSender& sender);

class SessionSignals {
 public:
  void Heard(int signo, absl::Time now);
  // `signo` is about to be passed on: workers of the session that were started no later than this
  // have it already. InfinitePast: none has.
  absl::Time Reached(int signo, absl::Time now);

 private:
  std::map<int, absl::Time> heard_;  // by signal; the last that was not passed on yet
};

}  // namespace muster
