#include "launcher/schedule/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "/usr/bin:/bin" : path;
  for (const auto& folder : absl::StrSplit(folders, ':')) {
    std::string file = absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return absl::NotFoundError(absl::StrCat(name, ": not found in PATH (", folders, ")"));
}

struct Prepared {
  const char* program;
  char* const* argv;
  char* const* environment;
  int channel;
  int errors;
  pid_t parent;
};

// In the child, on the parent's memory: nothing but system calls.
int ExecChild(const Prepared& prepared) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != prepared.parent) {
    return ESRCH;  // it died before the line above
  }
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &standard, nullptr);
  sigaction(SIGCHLD, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(prepared.channel, 0) < 0 || dup2(prepared.channel, 1) < 0 ||
      dup2(prepared.errors, 2) < 0) {
    return errno;
  }
  execve(prepared.program, prepared.argv, prepared.environment);
  return errno;
}

}  // namespace

absl::StatusOr<pid_t> SpawnChild(const ChildSpec& spec) {
  ASSIGN_OR_RETURN(const std::string program, FindProgram(spec.argv.at(0)));
  std::vector<std::string> strings = spec.argv;
  std::vector<char*> argv;
  argv.reserve(strings.size() + 1);
  for (std::string& one : strings) {
    argv.push_back(one.data());
  }
  argv.push_back(nullptr);
  std::vector<std::string> entries = spec.environment;
  std::vector<char*> environment;
  environment.reserve(entries.size() + 1);
  for (std::string& one : entries) {
    environment.push_back(one.data());
  }
  environment.push_back(nullptr);
  // Above 2, so that dup2 in the child neither overwrites nor keeps close-on-exec on them.
  const UniqueFd channel(fcntl(spec.channel, F_DUPFD_CLOEXEC, 3));
  const UniqueFd errors(fcntl(spec.errors, F_DUPFD_CLOEXEC, 3));
  if (!channel.valid() || !errors.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no descriptors left: ", std::strerror(errno), ": raise `ulimit -n`"));
  }
  const Prepared prepared{
      program.c_str(), argv.data(),  entries.empty() ? environ : environment.data(),
      channel.get(),   errors.get(), getpid()};
  // Signal handlers of ours must not run in the child while it shares our memory.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  volatile int error = 0;
  // NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): fork would copy our page tables
  const pid_t pid = vfork();
  if (pid == 0) {
    // NOLINTNEXTLINE(clang-analyzer-unix.Vfork): it makes async-signal-safe calls only
    error = ExecChild(prepared);
    _exit(127);
  }
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return absl::UnavailableError(absl::StrCat("cannot start ", program, ": ",
                                               std::strerror(fork_error), ": see `ulimit -u`"));
  }
  if (error != 0) {
    waitpid(pid, nullptr, 0);
    const std::string text = absl::StrCat("cannot run ", program, ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(text) : absl::PermissionDeniedError(text);
  }
  return pid;
}

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signo = WTERMSIG(wait_status);
    return absl::StrCat("was ended by ", SignalName(signo), " (", SignalWords(signo), ")");
  }
  return absl::StrCat("ended with status ", WEXITSTATUS(wait_status));
}

}  // namespace muster
