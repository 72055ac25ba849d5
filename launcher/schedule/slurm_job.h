// What Slurm says of a job's time and past in the environment of its processes, and what follows
// from that for its end. Pure functions; thread-safe.
//
// Rules:
//  J1 at the end of a job Slurm sends SIGTERM, and SIGKILL its KillWait later; a job that is
//     stopped earlier by a warning (sbatch --signal) has the time until then;
//  J2 so much of it is left to launch itself, to say how the job ended: 5 s, of a short KillWait a
//     quarter.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "launcher/schedule/file_reader.h"

namespace muster {

inline constexpr absl::Duration kSlurmKillWait = absl::Seconds(30);  // Slurm's own default
// A stop that comes so shortly before the job's end is taken for the warning of it.
inline constexpr absl::Duration kSlurmWarnedWithin = absl::Minutes(10);

struct SlurmJob {
  std::string id;                            // "17"
  std::string name;                          // "Slurm job 17", for people
  absl::Time ends = absl::InfiniteFuture();  // wall clock; infinite = older Slurms do not say
  // We are in a batch script. Slurm sends what is meant for the job's workers to its steps, and
  // when the script's shell dies, gives time to end well to its steps alone.
  bool in_script = false;
  bool in_step = false;     // we are of a step, and end with it; salloc's shell is none
  bool many_tasks = false;  // of several tasks, and what Slurm sends to one it sends to all
  absl::Duration kill_wait = kSlurmKillWait;
  uint32_t restarts = 0;  // how often it was started again as a whole
  // Of a job of one node, too, the agent is started by srun, so that there is a step.
  bool lone_step = false;
};

// No value: this is no job of Slurm's, or a worker in one. InvalidArgument: a variable is not what
// Slurm writes; the text names it. `read_file` reads Slurm's configuration; the default of what it
// does not say, or where it may not be read.
absl::StatusOr<std::optional<SlurmJob>> ReadSlurmJob(
    const std::map<std::string, std::string>& environment, const FileReader& read_file);

// By slurm.conf(5). No value: it is not there, or the default.
std::optional<absl::Duration> KillWaitOf(absl::string_view configuration);

// What workers have of `kill_wait` (J2).
absl::Duration GraceOf(absl::Duration kill_wait);

// From the stop signal to SIGKILL where the user has not said --grace.
absl::Duration SlurmGrace(const SlurmJob& job, absl::Time now);

// What workers that are stopped now really have of `grace`.
absl::Duration LeftOfGrace(absl::Duration grace, const SlurmJob& job, absl::Time now);

}  // namespace muster
