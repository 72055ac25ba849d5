// Ctrl-C and its kin while a short command waits on a descriptor. One object a process at a time;
// one thread.
#pragma once

#include <poll.h>

#include <csignal>
#include <cstdint>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace muster {

class WaitSignals {
 public:
  // From here on INT, TERM and QUIT are kept for Take; each ends a Poll.
  WaitSignals();
  ~WaitSignals();
  WaitSignals(const WaitSignals&) = delete;
  WaitSignals& operator=(const WaitSignals&) = delete;

  // Until `fd` is ready for `events` (POLLIN ...), a signal comes or `wait` is over.
  void Poll(int fd, int16_t events, absl::Duration wait) const;
  // Until one of them is, and which.
  void Poll(absl::Span<pollfd> fds, absl::Duration wait) const;
  // The last signal that came since the last call, else 0.
  static int Take();
  // Whether there is one to take.
  static bool Pending();

 private:
  sigset_t before_{};
};

}  // namespace muster
