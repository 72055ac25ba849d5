// The shepherd: the small single-threaded process that owns the workers. It is forked before any
// thread exists, is a sub-reaper, starts workers (vfork), waits for them, kills, and holds the
// lease. It decides nothing: orders come from the I/O process over one socket, and when that socket
// ends it kills everything below it and goes. The I/O process in turn kills everything below itself
// (it is a sub-reaper too) when the shepherd dies first.
//
// Between the two stands the reaper, which does nothing but wait for the shepherd's end. Was that
// killed, what it leaves becomes the reaper's, who is a sub-reaper, too, and kills it; then, where
// the I/O process is still there, it forks another shepherd, for the next round. If the reaper is
// killed, nothing changes but this. A reaper that somebody has stopped (SIGSTOP) goes on when the
// I/O process ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/io/worker_limits.h"
#include "proto/base/unique_fd.h"

namespace muster {

struct ShepherdProcess {
  UniqueFd socket;    // the I/O process's end
  UniqueFd door;      // the I/O process's end of the workers' door (proto/base/worker_link.h)
  pid_t reaper = -1;  // our child; the shepherd's parent
  UniqueFd births;    // where the reaper says `pid`, and hands out the next shepherd's socket
  pid_t pid = -1;     // once AwaitShepherd has returned

  // Before it is handed to a ShepherdClient. It is there after a millisecond or two, in which the
  // caller has something else to do. Errors: ResourceExhausted, DeadlineExceeded; Aborted: one of
  // the two was killed as it started.
  absl::Status AwaitShepherd();
};

// A node gets this many, one after another.
inline constexpr int kShepherdsMax = 100;

// What becomes of the I/O process, where it does not answer for 5 s after the shepherd has ended
// the workers with the lease: somebody has stopped it (SIGSTOP), or the kernel holds it. Ended, it
// leaves its node to another agent.
enum class SilentIo { kStays, kIsKilled };

// Makes the caller a sub-reaper and forks the reaper, which forks the shepherd. Call while the
// process has one thread. `limits` are what workers get (of descriptors the agent has more itself).
// `at_end`, if any, is the last thing that the last shepherd does, when nothing runs below it any
// more; the reaper, where that was killed.
absl::StatusOr<ShepherdProcess> ForkShepherd(std::vector<ProcessLimit> limits,
                                             const std::function<void()>& at_end = nullptr,
                                             SilentIo silent = SilentIo::kStays);

// What the shepherd does, in the process that ForkShepherd has made for it: returns when the I/O
// process is gone and nothing runs below. `socket` and `door` are the other ends of
// ShepherdProcess's. `useless_io`: the I/O process, if it is SilentIo::kIsKilled; else -1.
void RunShepherd(UniqueFd socket, UniqueFd door, std::vector<ProcessLimit> limits,
                 pid_t useless_io);

}  // namespace muster
