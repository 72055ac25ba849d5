#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/process_tree.h"
#include "agent/io/shepherd.h"
#include "proto/base/await_fd.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::Duration kBirthWithin = absl::Seconds(15);  // two forks, on any machine

// Nothing but SIGKILL ends it, and orphans below it become its children.
void BecomeSubReaper(const char* name) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, name);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

absl::Status NoShepherd(int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot start the shepherd process: ", std::strerror(error), "; see ulimit -u"));
}

// What the reaper does.
void ReapAfter(pid_t shepherd, const std::function<void()>& at_end) {
  int status = 0;
  while (waitpid(shepherd, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {  // else it has left nothing, and has done the rest
    KillDescendants({}, kKillWithin, [](pid_t, int, uint64_t) {});
    if (at_end) {
      at_end();
    }
  }
}

}  // namespace

absl::StatusOr<ShepherdProcess> ForkShepherd(std::vector<ProcessLimit> limits,
                                             const std::function<void()>& at_end) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("shepherd: socketpair: ", std::strerror(errno)));
  }
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("shepherd: socketpair: ", std::strerror(errno)));
  }
  UniqueFd door(ends[0]);
  UniqueFd workers_door(ends[1]);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGCHLD,
         SIG_DFL);  // ignored by some callers, and then the kernel would tell us of no exit
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("shepherd: pipe: ", std::strerror(errno)));
  }
  UniqueFd hears(ends[0]);
  UniqueFd tells(ends[1]);
  const pid_t reaper = fork();
  if (reaper == 0) {
    ours.Reset();
    door.Reset();
    hears.Reset();
    BecomeSubReaper("muster-reaper");
    const pid_t shepherd = fork();
    if (shepherd == 0) {
      tells.Reset();
      BecomeSubReaper("muster-shepherd");
      RunShepherd(std::move(theirs), std::move(workers_door), std::move(limits));
      if (at_end) {
        at_end();
      }
      _exit(0);
    }
    const pid_t said = shepherd < 0 ? -errno : shepherd;
    (void)!write(tells.get(), &said, sizeof(said));
    tells.Reset();
    theirs.Reset();
    workers_door.Reset();
    setsid();  // whoever kills the others' group does not kill us with it
    ReapAfter(shepherd, at_end);
    _exit(0);
  }
  if (reaper < 0) {
    return NoShepherd(errno);
  }
  return ShepherdProcess{std::move(ours), std::move(door), reaper, std::move(hears)};
}

absl::Status ShepherdProcess::AwaitShepherd() {
  const UniqueFd said = std::move(birth);
  RETURN_IF_ERROR(
      AwaitFd(said.get(), POLLIN, BootNow() + kBirthWithin, "the shepherd process of this node"));
  pid = -ESRCH;  // that stays where the reaper was killed before
  (void)!read(said.get(), &pid, sizeof(pid));
  return pid > 0 ? absl::OkStatus() : NoShepherd(-pid);
}

}  // namespace muster
