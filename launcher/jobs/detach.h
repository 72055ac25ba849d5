// `launch --detach`: the job goes on in a session of its own, under a keeper (keeper.h); the
// command that was typed waits for its start.
#pragma once

#include <functional>

#include "launcher/job_spec.h"

namespace muster {

// Call while the process has one thread. `run` runs the job in the foreground of the new session.
// Returns the exit code for the command that was typed: 0 once all workers have been started, or
// how the job ended before.
int RunDetached(JobSpec spec, const std::function<int(JobSpec)>& run);

}  // namespace muster
