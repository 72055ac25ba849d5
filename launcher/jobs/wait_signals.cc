#include "launcher/jobs/wait_signals.h"

#include <ctime>

namespace muster {
namespace {

volatile std::sig_atomic_t g_signal = 0;

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGQUIT};

}  // namespace

WaitSignals::WaitSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signo : kSignals) {
    struct sigaction action {};
    if (sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
      continue;  // our caller does not want it noticed
    }
    action = {};
    action.sa_handler = [](int got) {
      if (g_signal == 0 || g_signal == SIGINT) {  // a Ctrl-C hides no other
        g_signal = got;
      }
    };
    sigaction(signo, &action, nullptr);
    sigaddset(&set, signo);
  }
  // They come within Poll alone, so that none is missed between Take and the waiting.
  sigprocmask(SIG_BLOCK, &set, &before_);
}

WaitSignals::~WaitSignals() {
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  for (const int signo : kSignals) {
    struct sigaction action {};
    if (sigaction(signo, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      signal(signo, SIG_DFL);
    }
  }
}

void WaitSignals::Poll(int fd, int16_t events, absl::Duration wait) const {
  pollfd ready = {fd, events, 0};
  Poll(absl::MakeSpan(&ready, 1), wait);
}

void WaitSignals::Poll(absl::Span<pollfd> fds, absl::Duration wait) const {
  const timespec limit = absl::ToTimespec(wait);
  if (ppoll(fds.data(), fds.size(), &limit, &before_) <= 0) {
    for (pollfd& fd : fds) {
      fd.revents = 0;
    }
  }
}

bool WaitSignals::Pending() { return g_signal != 0; }

int WaitSignals::Take() {
  const int signo = g_signal;
  g_signal = 0;
  return signo;
}

}  // namespace muster
