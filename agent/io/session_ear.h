// What PBS sends to the session of its job, heard by one process of it that has these signals
// blocked: who is in the session need not be told again. Elsewhere it hears nothing. One thread.
#pragma once

#include <sys/types.h>

#include "absl/time/time.h"
#include "agent/core/session_signals.h"
#include "proto/base/unique_fd.h"

namespace muster {

class SessionEar {
 public:
  // In a job of PBS, by the environment.
  SessionEar();

  // Readable when there is something to Listen() to; -1: never.
  int fd() const { return signals_.get(); }
  void Listen();

  // Before `signo` is passed on: who is of our session, and was started no later than this, has it.
  absl::Time Reached(int signo);
  static bool IsOfSession(pid_t pid);

 private:
  UniqueFd signals_;
  SessionSignals heard_;
};

}  // namespace muster
