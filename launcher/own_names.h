// -x of names that launch itself gives to every worker.
#pragma once

#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

// Adds a note to `spec` for each -x of a value that no worker will see. Pure. `environment`: what
// says that this is a job of Slurm.
void NoteOwnNames(JobSpec& spec, const Environment& environment);

}  // namespace muster
