// launch --serve --journal FOLDER: the master is a process of its own. The agent of this node is
// another one, which goes on when this one is killed, as those of other nodes do.
#pragma once

#include <sys/types.h>

#include <functional>

#include "absl/status/statusor.h"
#include "launcher/job_spec.h"
#include "proto/base/unique_fd.h"

namespace muster {

// This node's agent, a child that begins with a byte in `go`, and ends if that closes before.
struct ServedAgent {
  pid_t pid = 0;  // 0 = that of a launch before us goes on
  UniqueFd go;
};

// A child that will do `run` with our pid, and exit with what that returns; before any thread.
absl::StatusOr<ServedAgent> ForkAgent(const std::function<int(pid_t server)>& run);

// Serves the job until it has ended; the exit code of launch.
int RunServed(JobSpec spec, ServedAgent agent);

}  // namespace muster
