#include "agent/io/session_ear.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "proto/base/clock.h"
#include "proto/base/passed_signals.h"

namespace muster {

SessionEar::SessionEar() {
  if (std::getenv("PBS_JOBID") == nullptr || std::getenv("SLURM_JOB_ID") != nullptr) {
    return;  // Slurm signals the group of the batch shell, or what it has started itself
  }
  sigset_t set;
  sigemptyset(&set);
  for (const int signo : kPassedSignals) {
    sigaddset(&set, signo);
  }
  signals_.Reset(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

void SessionEar::Listen() {
  signalfd_siginfo info{};
  while (signals_.valid() && read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    // One that we cannot see any more, or never could (another PID namespace), is none of ours.
    const auto sender = static_cast<pid_t>(info.ssi_pid);
    const bool ours = sender > 0 && IsOfSession(sender);
    if (IsForSession({info.ssi_code == SI_USER, info.ssi_uid, ours})) {
      heard_.Heard(static_cast<int>(info.ssi_signo), BootNow());
    }
  }
}

absl::Time SessionEar::Reached(int signo) {
  Listen();
  return heard_.Reached(signo, BootNow());
}

bool SessionEar::IsOfSession(pid_t pid) { return getsid(pid) == getsid(0); }

}  // namespace muster
