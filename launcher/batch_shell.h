// The shell of a batch script, where launch is its child: it dies of the SIGTERM that ends the job,
// and all that it runs is killed with it.
#pragma once

#include <optional>
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
  int pid = 0;
  std::string rights = {};  // user, groups and CPUs that it may use, as the kernel writes them
};
ProcessStatus ParseProcessStatus(absl::string_view text);

// `ancestors`: our parent, its parent and so on. The shell of Slurm's script, a child of
// slurmstepd; none where launch has replaced it (exec).
std::optional<ProcessStatus> ShellOfSlurm(const std::vector<ProcessStatus>& ancestors);
// Whether none of them is between us and `shell`, but subshells of its: a tool that follows its
// children (perf, strace, time) would lose what a step of Slurm's starts.
bool OnlyShellsBetween(const std::vector<ProcessStatus>& ancestors, const ProcessStatus& shell);

// Likewise that of PBS, the first of our `session`: whether it is one of them, and dies of SIGTERM.
bool ShellOfSessionEndsUnheard(const std::vector<ProcessStatus>& ancestors, int session);

// Whether a shell with job control has started us, as one does that somebody types at: it gives
// what it runs a process group of its own.
bool AtAPrompt();

// Ours, up to the first process or as far as may be read.
std::vector<ProcessStatus> Ancestors();

// Whether a process that Slurm starts on this node sees what we do: we have the rights of the
// script's shell, its namespaces and its memory policy, and no file of its own is among `words` of
// the command (`<(...)` of bash). In a container, or behind taskset or numactl, it would not.
bool StepSeesTheSame(const ProcessStatus& shell, const std::vector<std::string>& words);

}  // namespace muster
