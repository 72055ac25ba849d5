// The shell of a batch script, where launch is its child: it dies of the SIGTERM that ends the job,
// and all that it runs is killed with it.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// What /proc/PID/status says of a process; nothing where the text is not such a one.
struct ProcessStatus {
  std::string name;
  int parent = 0;
  int session = 0;          // where it is in several pid namespaces, in the innermost
  bool minds_term = false;  // SIGTERM is caught or ignored
};
ProcessStatus ParseProcessStatus(absl::string_view text);

// `ancestors`: our parent, its parent and so on. Whether the script's shell is one of them, and
// dies of SIGTERM; a script that ends in `exec launch` has none. Slurm's is a child of slurmstepd,
// that of PBS the first of our `session`.
bool ShellEndsUnheard(const std::vector<ProcessStatus>& ancestors);
bool ShellOfSessionEndsUnheard(const std::vector<ProcessStatus>& ancestors, int session);

// Whether a shell with job control has started us, as one does that somebody types at: it gives
// what it runs a process group of its own.
bool AtAPrompt();

// Ours, up to the first process or as far as may be read.
std::vector<ProcessStatus> Ancestors();

}  // namespace muster
