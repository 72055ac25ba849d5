// What Slurm's daemon of a step says where it could not run the agent. Pure; thread-safe.
#pragma once

#include "absl/strings/string_view.h"
#include "launcher/schedule/step_end.h"

namespace muster {

// By a line of srun's stderr: "slurmstepd-node1: error: execve(): /x/muster-agent: No such file or
// directory". `how` says it with the way out; `hosts` is empty where it names none. Nothing of any
// other line.
StepEnd StepdEnd(absl::string_view line);

}  // namespace muster
