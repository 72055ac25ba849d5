// What a user or a scheduler sends to launch, and launch passes on to the workers.
#pragma once

#include <algorithm>
#include <csignal>
#include <iterator>

namespace muster {

inline constexpr int kPassedSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
// Those that stop the job, too; the others do where the user says so (--signals-to-handle).
inline constexpr int kStopSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

inline bool AlwaysStops(int signo) {
  return std::find(std::begin(kStopSignals), std::end(kStopSignals), signo) !=
         std::end(kStopSignals);
}

}  // namespace muster
