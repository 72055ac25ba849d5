// Stops processes, the caller among them, and lets them go on: what `launch chaos freeze` does to a
// node.
#pragma once

#include <sys/types.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace muster {

// SIGSTOP for `others` (negative: a process group), then for this process; SIGCONT for all of them
// when the time is over, or when this process has been killed meanwhile. Returns then. A process
// that is stopped as well (its parent's shell shows it) can be continued before that by hand.
// ResourceExhausted: no process could be made that would let them go on; nothing was stopped.
absl::Status FreezeFor(absl::Duration length, const std::vector<pid_t>& others);

}  // namespace muster
