// Starts one program that ends with us. Any number of threads may run; only async-signal-safe work
// happens between vfork and exec.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/unique_fd.h"

namespace muster {

// Our ends, non-blocking.
struct Child {
  pid_t pid = -1;
  UniqueFd channel;  // a socket: its stdin and stdout
  UniqueFd errors;   // its stderr
};

enum class ChildLeads { kGroup, kSession };

// The child leads a process group of its own (Ctrl-C of the terminal is for us to pass on), or a
// session (then so is what PBS sends to all of ours; but it has no terminal to ask at), and gets
// `at_our_end` when the calling thread ends. Errors: NotFound (no such program), PermissionDenied,
// Unavailable (no process or memory left), ResourceExhausted (no descriptors). `argv`: the first is
// searched in PATH; `environment`: "K=V", empty = ours.
absl::StatusOr<Child> SpawnChild(std::vector<std::string> argv,
                                 std::vector<std::string> environment = {},
                                 ChildLeads leads = ChildLeads::kGroup, int at_our_end = SIGTERM);

// Whether SpawnChild would find a program of this name.
bool HasProgram(const std::string& name);

// "ended with status 3", "was ended by SIGTERM (terminated)", from a status of waitpid(2).
std::string HowItEnded(int wait_status);
// As a shell counts it: 128 + the number of the signal that ended it.
inline int ExitCodeOf(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace muster
