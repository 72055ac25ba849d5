// The shepherd: the small single-threaded process that owns the workers. It is forked before any
// thread exists, is a sub-reaper, starts workers (vfork), waits for them, kills, and holds the
// lease. It decides nothing: orders come from the I/O process over one socket, and when that socket
// ends it kills everything below it and goes. The I/O process in turn kills everything below itself
// (it is a sub-reaper too) when the shepherd dies first.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/io/worker_limits.h"
#include "proto/base/unique_fd.h"

namespace muster {

struct ShepherdProcess {
  UniqueFd socket;  // the I/O process's end
  UniqueFd door;    // the I/O process's end of the workers' door (proto/base/worker_link.h)
  pid_t pid = -1;
};

// Makes the caller a sub-reaper and forks the shepherd. Call while the process has one thread.
// `limits` are what workers get (of descriptors the agent has more itself).
// `at_end`, if any, is the last thing that it does, when nothing runs below it any more.
absl::StatusOr<ShepherdProcess> ForkShepherd(std::vector<ProcessLimit> limits,
                                             const std::function<void()>& at_end = nullptr);

}  // namespace muster
