#include "agent/io/freeze.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

// In the child of a process with threads: system calls alone.
[[noreturn]] void Thaw(int frozen, int milliseconds, const std::vector<pid_t>& others,
                       pid_t parent) {
  setsid();
  syscall(SYS_close_range, 0U, static_cast<unsigned>(frozen - 1), 0U);
  syscall(SYS_close_range, static_cast<unsigned>(frozen + 1), ~0U, 0U);
  pollfd end = {frozen, POLLIN, 0};
  while (poll(&end, 1, milliseconds) < 0 && errno == EINTR) {
  }
  for (const pid_t one : others) {
    kill(one, SIGCONT);
  }
  kill(parent, SIGCONT);
  _exit(0);
}

}  // namespace

absl::Status FreezeFor(absl::Duration length, const std::vector<pid_t>& others) {
  const pid_t self = getpid();
  const UniqueFd frozen(static_cast<int>(syscall(SYS_pidfd_open, self, 0)));
  const pid_t child = frozen.valid() ? fork() : -1;
  if (child < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("freeze: ", std::strerror(errno)));
  }
  if (child == 0) {
    Thaw(frozen.get(), static_cast<int>(absl::ToInt64Milliseconds(length)), others, self);
  }
  for (const pid_t one : others) {
    kill(one, SIGSTOP);
  }
  raise(SIGSTOP);        // to this thread, so that it goes no further
  kill(child, SIGKILL);  // it has done its work, or we were let go on before
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  for (const pid_t one : others) {
    kill(one, SIGCONT);
  }
  return absl::OkStatus();
}

}  // namespace muster
