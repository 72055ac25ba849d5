// What launch says, where it is the child of a batch script's shell, of the job's end: Slurm and
// PBS signal that shell, and kill what is left of the script when it has died.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "launcher/job_spec.h"

namespace muster {

struct BatchPlace {
  bool slurm = true;           // else PBS
  bool shell_minds = false;    // it catches SIGTERM, or ignores it
  bool in_step = false;        // the workers are all in a step of Slurm's
  bool in_background = false;  // launch ... &
};

// One sentence; "" = nothing is lost at that job's end.
std::string BatchNotice(const BatchPlace& place);

// `list`, a line for each key, with `key` behind the others, of which the last 63 are kept; "" = it
// has that key.
std::string ListWith(absl::string_view list, absl::string_view key);

// Says it, once in a job: what has been said is kept in $XDG_STATE_HOME/muster/told, or in
// ~/.local/state. Nothing for the jobs of `launch doctor`.
void TellOfBatchShell(const JobSpec& spec);

}  // namespace muster
