// The keeper of a detached job: a process of its own that runs the launcher as its child, takes its
// output into the log, writes down how it goes, and passes on what `launch attach` and `launch
// stop` want.
//
// Invariants:
//  K1 the launcher dies with its keeper (SIGKILL), and everything below the launcher with that;
//  K2 the keeper goes after the launcher, when all output is in the log and the end is written
//     down;
//
//  K3 a client that does not read misses news, never delays the job; they are bounded, and those
//     that follow leave room for those that want to stop it.
#pragma once

#include <functional>
#include <string>

#include "launcher/jobs/job_record.h"
#include "proto/base/unique_fd.h"

namespace muster {

struct KeeperOptions {
  std::string folder;  // of the job
  JobRecord record;    // without `keeper`
  uint64_t log_bytes_max = 0;
  UniqueFd claim;  // to the folder, until the record is there
  UniqueFd typed;  // socket to the command that was typed, which waits for the start
  // The launcher: runs in a child whose stdout and stderr are the log; `link` is its end of the
  // packets. Returns the exit code.
  std::function<int(int link)> launcher;
};

// In a process of its own, which has one thread; ends it.
[[noreturn]] void KeepJob(KeeperOptions options);

}  // namespace muster
