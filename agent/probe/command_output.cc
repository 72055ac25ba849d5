#include "agent/probe/command_output.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/await_fd.h"
#include "proto/base/clock.h"
#include "proto/base/unique_fd.h"

extern char** environ;

namespace muster {
namespace {

constexpr absl::Duration kDies = absl::Seconds(1);  // once killed

// ResourceExhausted: more than `bytes_max`.
absl::StatusOr<std::string> ReadAll(int fd, absl::Time deadline, size_t bytes_max) {
  std::string out;
  while (out.size() <= bytes_max) {
    if (const absl::Status ready = AwaitFd(fd, POLLIN, deadline, "its output"); !ready.ok()) {
      return ready;
    }
    char bytes[4096];
    const ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n == 0 || (n < 0 && errno != EINTR)) {
      return out;
    }
    out.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
  }
  return absl::ResourceExhaustedError(absl::StrCat("says more than ", bytes_max, " bytes"));
}

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& argv, int output) {
  std::vector<std::string> words = argv;
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat(argv[0], ": ", std::strerror(error)));
  }
  return pid;
}

}  // namespace

absl::StatusOr<std::string> CommandOutput(const std::vector<std::string>& argv, absl::Time deadline,
                                          size_t bytes_max) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  const UniqueFd output(ends[0]);
  UniqueFd theirs(ends[1]);
  const absl::StatusOr<pid_t> pid = Spawn(argv, theirs.get());
  if (!pid.ok()) {
    return pid.status();
  }
  theirs.Reset();
  absl::StatusOr<std::string> text = ReadAll(output.get(), deadline, bytes_max);
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  absl::Status ended = text.ok() ? absl::OkStatus() : text.status();
  if (ended.ok()) {
    ended = AwaitFd(process.get(), POLLIN, deadline, "its end");
  }
  if (!ended.ok()) {
    kill(*pid, SIGKILL);
    (void)AwaitFd(process.get(), POLLIN, BootNow() + kDies, "its end");
  }
  int status = 0;  // one that is stuck in a driver cannot even be killed: nobody waits for it
  const bool gone = waitpid(*pid, &status, WNOHANG) == *pid;
  if (!ended.ok()) {
    return absl::Status(ended.code(), absl::StrCat(argv[0], ": ", ended.message()));
  }
  if (!gone || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::UnknownError(
        absl::StrCat(argv[0], WIFEXITED(status) ? " ended with status " : " was ended by signal ",
                     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status)));
  }
  return text;
}

}  // namespace muster
