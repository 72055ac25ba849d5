#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/process_tree.h"
#include "agent/io/shepherd.h"
#include "agent/io/shepherd_protocol.h"
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
      absl::StrCat("cannot start the shepherd process: ", std::strerror(error),
                   error == EAGAIN ? "; see ulimit -u" : ""));
}

absl::Status KilledAtBirth() {
  return absl::AbortedError(
      "cannot start the shepherd process: it, or the reaper process above it, was killed as it "
      "started");
}

// Nobody wants another shepherd.
bool IsClosed(int births) {
  pollfd look = {births, POLLRDHUP, 0};
  return poll(&look, 1, 0) == 1;
}

// What stays the same when one shepherd follows another. In the reaper.
struct Nursery {
  UniqueFd births;
  UniqueFd door;
  std::vector<ProcessLimit> limits;
  const std::function<void()>& at_end;
  pid_t useless_io = -1;
};

struct SocketEnds {
  UniqueFd ours;  // of the first shepherd it is where it belongs
  UniqueFd theirs;
};

// Not valid where there are none.
SocketEnds NewEnds() {
  int ends[2];
  return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0
             ? SocketEnds{UniqueFd(ends[0]), UniqueFd(ends[1])}
             : SocketEnds();
}

// The shepherd, at its end of the socket; -errno.
pid_t ForkOne(Nursery& nursery, SocketEnds& ends) {
  const pid_t shepherd = fork();
  if (shepherd == 0) {
    nursery.births.Reset();
    ends.ours.Reset();
    BecomeSubReaper("muster-shepherd");
    RunShepherd(std::move(ends.theirs), std::move(nursery.door), std::move(nursery.limits),
                nursery.useless_io);
    if (nursery.at_end) {
      nursery.at_end();
    }
    _exit(0);
  }
  const int error = errno;
  ends.theirs.Reset();
  return shepherd < 0 ? -error : shepherd;
}

// Where nobody hears it any more, the shepherd notices that by itself.
void Tell(const UniqueFd& births, pid_t shepherd, UniqueFd ours) {
  ShepherdFrame born;
  born.value = shepherd;
  if (ours.valid()) {
    born.fds.push_back(std::move(ours));
  }
  (void)SendFrame(births.get(), born).ok();
}

// What the shepherd would have removed, as the I/O process has said last.
void RemoveRunDir(const UniqueFd& births) {
  std::string folder;
  while (true) {
    absl::StatusOr<ShepherdFrame> said = ReceiveFrame(births.get());
    if (!said.ok()) {
      break;
    }
    folder = std::move(said->payload);
  }
  if (!folder.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
}

// What the reaper does.
void RunReaper(Nursery nursery, SocketEnds ends) {
  for (int i = 0; i < kShepherdsMax && ends.theirs.valid() && !IsClosed(nursery.births.get());
       ++i) {
    const pid_t shepherd = ForkOne(nursery, ends);
    Tell(nursery.births, shepherd, std::move(ends.ours));
    if (i == 0) {
      setsid();  // whoever kills the others' group does not kill us with it
    }
    if (shepherd < 0) {
      break;
    }
    int status = 0;
    while (waitpid(shepherd, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFSIGNALED(status)) {
      return;  // it has left nothing, and has done the rest
    }
    KillDescendants(kKillWithin, [](pid_t, int, uint64_t) {});
    RemoveRunDir(nursery.births);
    ends = NewEnds();
  }
  if (nursery.at_end) {
    nursery.at_end();
  }
}

}  // namespace

absl::StatusOr<ShepherdProcess> ForkShepherd(std::vector<ProcessLimit> limits,
                                             const std::function<void()>& at_end, SilentIo silent) {
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
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::InternalError(absl::StrCat("shepherd: socketpair: ", std::strerror(errno)));
  }
  UniqueFd hears(ends[0]);
  UniqueFd tells(ends[1]);
  const pid_t useless_io = silent == SilentIo::kIsKilled ? getpid() : -1;
  const pid_t reaper = fork();
  if (reaper == 0) {
    prctl(PR_SET_PDEATHSIG, SIGCONT);  // who has been stopped goes on then
    ours.Reset();
    door.Reset();
    hears.Reset();
    BecomeSubReaper("muster-reaper");
    RunReaper({std::move(tells), std::move(workers_door), std::move(limits), at_end, useless_io},
              {UniqueFd(), std::move(theirs)});
    _exit(0);
  }
  if (reaper < 0) {
    return NoShepherd(errno);
  }
  return ShepherdProcess{std::move(ours), std::move(door), reaper, std::move(hears)};
}

absl::Status ShepherdProcess::AwaitShepherd() {
  RETURN_IF_ERROR(
      AwaitFd(births.get(), POLLIN, BootNow() + kBirthWithin, "the shepherd process of this node"));
  const absl::StatusOr<ShepherdFrame> born = ReceiveFrame(births.get());
  if (!born.ok()) {
    return KilledAtBirth();
  }
  pid = static_cast<pid_t>(born->value);
  return pid > 0 ? absl::OkStatus() : NoShepherd(-pid);
}

}  // namespace muster
