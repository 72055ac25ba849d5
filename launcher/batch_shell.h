// The shell of a Slurm batch script, where launch is its child: it dies of the SIGTERM that ends
// the job, and all that it runs is killed with it.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// What /proc/PID/status says of a process; nothing where the text is not such a one.
struct ProcessStatus {
  std::string name;
  int parent = 0;
  bool minds_term = false;  // SIGTERM is caught or ignored
};
ProcessStatus ParseProcessStatus(absl::string_view text);

// `ancestors`: our parent, its parent and so on. Whether the script's shell is one of them, and
// dies of SIGTERM; a script that ends in `exec launch` has none.
bool ShellEndsUnheard(const std::vector<ProcessStatus>& ancestors);

// Ours, up to the first process or as far as may be read.
std::vector<ProcessStatus> Ancestors();

}  // namespace muster
