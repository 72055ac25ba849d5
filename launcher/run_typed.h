// The same command typed on every node (torchrun's habit), or served without hosts and endpoint:
// each launch runs its own node's agent and shows its own workers' output; one of them, or a
// daemon, is the master.
#pragma once

#include "launcher/job_spec.h"

namespace muster {

// Blocks until the job has ended; the exit code of launch, the same on every node.
int RunTyped(JobSpec spec);

}  // namespace muster
