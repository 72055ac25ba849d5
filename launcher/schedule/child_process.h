// Starts one program that ends with us. Any number of threads may run; only async-signal-safe work
// happens between vfork and exec.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

struct ChildSpec {
  std::vector<std::string> argv;              // argv[0] is searched in PATH
  int channel = -1;                           // its stdin and stdout
  int errors = -1;                            // its stderr
  std::vector<std::string> environment = {};  // "K=V"; empty = ours
};

// The child leads a process group of its own (Ctrl-C of the terminal is for us to pass on), and
// gets SIGTERM when the calling thread ends. Errors: NotFound (no such program), PermissionDenied,
// Unavailable (no process or memory left).
absl::StatusOr<pid_t> SpawnChild(const ChildSpec& spec);

// "ended with status 3", "was ended by SIGTERM (terminated)", from a status of waitpid(2).
std::string HowItEnded(int wait_status);

}  // namespace muster
