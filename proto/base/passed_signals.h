// What a user or a scheduler sends to launch, and launch passes on to the workers.
#pragma once

#include <csignal>

namespace muster {

inline constexpr int kPassedSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

}  // namespace muster
