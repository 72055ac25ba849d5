// The signals that a process has blocked live on over exec: a parent that blocks some would leave
// us deaf to them.
#pragma once

#include <unistd.h>

#include <csignal>

namespace muster {

// At the start of main, for a container's first process: what it does not handle, the kernel would
// not deliver to it, so that a stop that comes before the handlers do would be lost. It waits until
// HearAllSignals. Any other process may be ended at once.
inline void HoldStopsIfFirst() {
  if (getpid() != 1) {
    return;
  }
  sigset_t stops;
  sigemptyset(&stops);
  for (const int signo : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    sigaddset(&stops, signo);
  }
  sigprocmask(SIG_BLOCK, &stops, nullptr);
}

// At the start of main, before there is a thread. What the parent ignores stays ignored.
inline void HearAllSignals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace muster
