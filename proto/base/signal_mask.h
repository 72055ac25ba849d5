// The signals that a process has blocked live on over exec: a parent that blocks some would leave
// us deaf to them.
#pragma once

#include <csignal>

namespace muster {

// At the start of main, before there is a thread. What the parent ignores stays ignored.
inline void HearAllSignals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace muster
