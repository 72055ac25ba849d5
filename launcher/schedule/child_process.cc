#include "launcher/schedule/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/core_limit.h"
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
  ChildLeads leads;
  int at_our_end;
  rlimit cores;
};

// In the child, on the parent's memory: nothing but system calls.
int ExecChild(const Prepared& prepared) {
  if (prepared.leads == ChildLeads::kSession) {
    setsid();
  } else {
    setpgid(0, 0);
  }
  prctl(PR_SET_PDEATHSIG, prepared.at_our_end);
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
  setrlimit(RLIMIT_CORE, &prepared.cores);  // srun hands it on to the workers
  execve(prepared.program, prepared.argv, prepared.environment);
  return errno;
}

// For exec: a null behind them.
std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (std::string& one : strings) {
    out.push_back(one.data());
  }
  out.push_back(nullptr);
  return out;
}

absl::StatusOr<pid_t> StartChild(const Prepared& prepared) {
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
    return absl::UnavailableError(absl::StrCat("cannot start ", prepared.program, ": ",
                                               std::strerror(fork_error), ": see `ulimit -u`"));
  }
  if (error != 0) {
    waitpid(pid, nullptr, 0);
    const std::string text =
        absl::StrCat("cannot run ", prepared.program, ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(text) : absl::PermissionDeniedError(text);
  }
  return pid;
}

}  // namespace

absl::StatusOr<Child> SpawnChild(std::vector<std::string> argv,
                                 std::vector<std::string> environment, ChildLeads leads,
                                 int at_our_end) {
  ASSIGN_OR_RETURN(const std::string program, FindProgram(argv.at(0)));
  const std::vector<char*> arguments = Pointers(argv);
  const std::vector<char*> entries = Pointers(environment);
  int sockets[2] = {-1, -1};
  int pipe[2] = {-1, -1};
  const bool opened = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0 &&
                      pipe2(pipe, O_CLOEXEC) == 0;
  const int open_error = errno;
  Child child = {-1, UniqueFd(sockets[0]), UniqueFd(pipe[0])};
  const UniqueFd their_channel(sockets[1]);
  const UniqueFd their_errors(pipe[1]);
  // Above 2, so that dup2 in the child neither overwrites nor keeps close-on-exec on them.
  const UniqueFd channel(opened ? fcntl(their_channel.get(), F_DUPFD_CLOEXEC, 3) : -1);
  const UniqueFd errors(opened ? fcntl(their_errors.get(), F_DUPFD_CLOEXEC, 3) : -1);
  if (!channel.valid() || !errors.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no descriptors left: ", std::strerror(opened ? errno : open_error),
                     ": raise `ulimit -n`"));
  }
  fcntl(child.channel.get(), F_SETFL, O_NONBLOCK);
  fcntl(child.errors.get(), F_SETFL, O_NONBLOCK);
  const Prepared prepared{
      program.c_str(), arguments.data(), environment.empty() ? environ : entries.data(),
      channel.get(),   errors.get(),     getpid(),
      leads,           at_our_end,       CoreLimitOfOthers()};
  ASSIGN_OR_RETURN(child.pid, StartChild(prepared));
  return child;
}

bool HasProgram(const std::string& name) { return FindProgram(name).ok(); }

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signo = WTERMSIG(wait_status);
    return absl::StrCat("was ended by ", SignalName(signo), " (", SignalWords(signo), ")");
  }
  return absl::StrCat("ended with status ", WEXITSTATUS(wait_status));
}

}  // namespace muster
