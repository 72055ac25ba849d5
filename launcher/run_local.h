// One machine: master, agent and display in this process, workers under its shepherd; nothing
// listens but, on loopback, the torch store. No gRPC, no thread, no topology library on this path.
#pragma once

#include "launcher/job_spec.h"

namespace muster {

// Blocks until the job has ended; the exit code of launch.
int RunLocal(JobSpec spec);

}  // namespace muster
