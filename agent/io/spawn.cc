#include "agent/io/spawn.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "agent/io/life_pipe.h"

namespace muster {
namespace {

// Shared with the vfork child, which runs on our memory while we are suspended.
struct ChildError {
  volatile int error = 0;
  const char* volatile step = "";
};

[[noreturn]] void Fail(ChildError* out, const char* step) {
  out->error = errno;
  out->step = step;
  _exit(127);
}

// One that is held keeps signals blocked until it stands still behind its exec: any of them would
// stop a traced child before that, and its parent, which waits for the exec, with it. The exec's
// own stop is a SIGTRAP.
void SetSignalMask(bool held) {
  sigset_t blocked;
  sigemptyset(&blocked);
  if (held) {
    sigfillset(&blocked);
    sigdelset(&blocked, SIGTRAP);
  }
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
}

// As execvp: the first candidate that can be run; a script without "#!" goes to /bin/sh. argv has a
// free slot in front for that, so nothing is allocated here.
void ExecFirst(const SpawnRequest& request, char** argv_with_slot) {
  int error = ENOENT;
  for (char* candidate : request.candidates) {
    execve(candidate, argv_with_slot + 1, request.envp.data());
    if (errno == ENOEXEC) {
      char* const program = argv_with_slot[1];
      static char shell[] = "/bin/sh";
      argv_with_slot[0] = shell;
      argv_with_slot[1] = candidate;
      execve(shell, argv_with_slot, request.envp.data());
      argv_with_slot[1] = program;
      return;
    }
    if (errno == EACCES) {
      error = errno;  // unless a later one can be run
    } else if (errno != ENOENT && errno != ENOTDIR && errno != ENODEV && errno != ESTALE &&
               errno != ETIMEDOUT) {
      return;  // it is there, and another program must not take its place
    }
  }
  errno = error;
}

// A number that a descriptor of the worker's gets.
bool IsTaken(int fd) {
  return (fd >= 0 && fd <= STDERR_FILENO) || fd == kWorkerDoorFd || fd == kWorkerLifeFd ||
         fd == kWorkerPmiFd;
}

// Here one of them can carry another's number: a standard one where our caller closed that, those
// above where we have many open. It moves out of the way before dup2 takes the numbers, and also
// where the number is its own already: it would close with the exec. A failure shows in dup2.
int OutOfTheWay(int fd) {
  while (IsTaken(fd)) {
    fd = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
  }
  return fd;
}

// System calls only, on what the caller has prepared. False with errno.
bool Bind(const SpawnBinding& binding) {
  const std::vector<uint64_t>& cpus = binding.cpus.words();
  if (!cpus.empty() && sched_setaffinity(0, cpus.size() * sizeof(uint64_t),
                                         reinterpret_cast<const cpu_set_t*>(cpus.data())) != 0) {
    return false;
  }
  const std::vector<uint64_t>& nodes = binding.memory_nodes.words();
  // The kernel counts one bit more than it reads.
  const size_t bits = nodes.size() * 64 + 1;
  switch (binding.memory) {
    case MemoryBinding::kNone:
      return true;
    case MemoryBinding::kLocal:
      return syscall(SYS_set_mempolicy, MPOL_LOCAL, nullptr, 0) == 0;
    case MemoryBinding::kBind:
      return nodes.empty() || syscall(SYS_set_mempolicy, MPOL_BIND, nodes.data(), bits) == 0;
    case MemoryBinding::kInterleave:
      return nodes.empty() || syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, nodes.data(), bits) == 0;
  }
  return true;
}

// The death signal reaches this process alone, and none that it forks: to its group the kernel
// sends one when the pipe has no writer any more. It is the open file that has an owner, so each
// worker opens its own. A failure leaves the death signal.
void DieAsGroup(const char* life) {
  const int fd = OutOfTheWay(open(life, O_RDONLY | O_CLOEXEC));
  (void)EndGroupWith(fd, getpid());
  dup2(fd, kWorkerLifeFd);
}

[[noreturn]] void RunChild(const SpawnRequest& request, pid_t parent, char** argv_with_slot,
                           ChildError* out) {
  if (request.terminal) {
    setsid();  // also leads a group
  } else {
    setpgid(0, 0);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int in = OutOfTheWay(request.stdin_fd);
  const int out_fd = OutOfTheWay(request.stdout_fd);
  const int err_fd = OutOfTheWay(request.stderr_fd);
  const int door = OutOfTheWay(request.door_fd);
  const int pmi = OutOfTheWay(request.pmi_fd);
  if (request.life != nullptr) {
    DieAsGroup(request.life);
  }
  if (getppid() != parent) {
    _exit(127);  // the parent died before the death signal was armed
  }
  if (dup2(in, STDIN_FILENO) < 0 || dup2(out_fd, STDOUT_FILENO) < 0 ||
      dup2(err_fd, STDERR_FILENO) < 0) {
    Fail(out, "dup2");
  }
  if (request.terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0) {
    Fail(out, "controlling terminal");
  }
  if (request.door_fd >= 0) {
    dup2(door, kWorkerDoorFd);  // a limit below it: the SDK will say so, if it is used
  }
  if (request.pmi_fd >= 0 && dup2(pmi, kWorkerPmiFd) < 0 && !request.pmi_offered) {
    Fail(out, "PMI");  // without it no MPI of its finds its world
  }
  for (const ProcessLimit& limit : request.limits) {
    setrlimit(limit.resource, &limit.value);
  }
  if (!Bind(request.binding) && request.binding.must) {
    Fail(out, "bind");
  }
  if (request.wdir != nullptr && *request.wdir != '\0' && chdir(request.wdir) != 0) {
    Fail(out, "chdir");
  }
  SetSignalMask(request.held);
  if (request.no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    Fail(out, "no new privileges");
  }
  if (request.held && ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
    Fail(out, "hold");
  }
  ExecFirst(request, argv_with_slot);
  Fail(out, "exec");
}

// Until the child has stopped or ended, for a second at most: a SIGCONT that comes in between takes
// its stop away.
void AwaitChange(pid_t pid) {
  constexpr timespec kNap = {0, 1'000'000};
  for (int naps = 0; naps < 1000; ++naps) {
    siginfo_t change{};
    const int waited = waitid(P_PID, static_cast<id_t>(pid), &change,
                              WSTOPPED | WCONTINUED | WEXITED | WNOWAIT | WNOHANG);
    if ((waited != 0 && errno != EINTR) || (waited == 0 && change.si_pid != 0)) {
      return;
    }
    nanosleep(&kNap, nullptr);
  }
}

// The kernel stops a traced process at its exec; then it is told to stand still untraced, too. One
// that was killed meanwhile is reaped as any child.
void LeaveStopped(pid_t pid) {
  AwaitChange(pid);
  uint64_t none_blocked = 0;  // the kernel's own set of signals
  ptrace(PTRACE_SETSIGMASK, pid, sizeof none_blocked, &none_blocked);
  if (ptrace(PTRACE_DETACH, pid, nullptr, SIGSTOP) == 0) {
    AwaitChange(pid);
  }
}

}  // namespace

void ResetSignals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signo = 1; signo < NSIG; ++signo) {
    struct sigaction old {};
    // What our caller ignored on purpose (nohup: SIGHUP) stays ignored; we ourselves ignore SIGPIPE
    // and SIGXFSZ only.
    if (sigaction(signo, nullptr, &old) == 0 &&
        (old.sa_handler != SIG_IGN || signo == SIGPIPE || signo == SIGXFSZ)) {
      sigaction(signo, &standard, nullptr);
    }
  }
}

SpawnResult Spawn(const SpawnRequest& request) {
  // Not on the stack: g++ takes a local that only the child's branch passes on for unchanged.
  static ChildError child_error;
  child_error.error = 0;
  std::vector<char*> argv_with_slot = {nullptr};
  argv_with_slot.insert(argv_with_slot.end(), request.argv.begin(), request.argv.end());
  const pid_t parent = getpid();
  // None comes to the child while it sets itself up.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t pid =
      vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork): 5 times faster than fork here
  if (pid == 0) {
    // NOLINTNEXTLINE(clang-analyzer-unix.Vfork): it makes async-signal-safe calls only
    RunChild(request, parent, argv_with_slot.data(), &child_error);
  }
  const int fork_error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return {-1, fork_error, "fork"};
  }
  if (child_error.error != 0) {
    return {pid, child_error.error, child_error.step};  // its exit is reaped as any child's
  }
  if (request.held) {
    LeaveStopped(pid);
  }
  return {pid, 0, ""};
}

}  // namespace muster
