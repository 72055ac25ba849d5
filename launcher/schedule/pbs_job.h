// What PBS says of a job's time. Pure functions; thread-safe.
//
// Rules:
//  T1 Torque says how long a job may run (PBS_WALLTIME, in seconds), the others do not;
//  T2 none says when it began: that is when the first process of our session did, which is its
//     batch script, or its shell, or where that has gone, the first of our process group.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/schedule/file_reader.h"

namespace muster {

struct PbsJob {
  std::string name;                                    // "PBS job 21.node0", for people
  absl::Duration walltime = absl::InfiniteDuration();  // infinite = not said
  absl::Time ends = absl::InfiniteFuture();            // wall clock; infinite = not known
  bool in_script = false;                              // not qsub -I
};

// No value: this is no job of PBS's, or a worker in one. `read_file` reads in /proc.
std::optional<PbsJob> ReadPbsJob(const std::map<std::string, std::string>& environment,
                                 const FileReader& read_file);

}  // namespace muster
