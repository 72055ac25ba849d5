#include "launcher/user_signals.h"

#include <unistd.h>

#include <csignal>
#include <utility>

namespace muster {

UserSignals::UserSignals(uv_loop_t* loop, Callbacks callbacks) : callbacks_(std::move(callbacks)) {
  for (const int signo : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    struct sigaction old {};
    if (sigaction(signo, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) {
      continue;  // nohup, or a shell's background job: our caller does not want it noticed
    }
    signals_.emplace_back(loop, signo, [this, signo] { On(signo); });
    signals_.back().Unref();
  }
}

void UserSignals::On(int signo) {
  switch (signo) {
    case SIGUSR1:
    case SIGUSR2:
      return callbacks_.on_pass(signo);
    case SIGTSTP:
      return callbacks_.on_suspend();
    case SIGCONT:
      return callbacks_.on_continue();
    default: {
      const bool again = signo == SIGINT && interrupted_;
      interrupted_ = interrupted_ || signo == SIGINT;
      return callbacks_.on_stop(signo, again);
    }
  }
}

void UserSignals::SuspendSelf() { kill(getpid(), SIGSTOP); }

}  // namespace muster
