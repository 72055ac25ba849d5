// After a batch job of Slurm's has lost a node and ended for that.
#pragma once

#include <string>

#include "launcher/job_spec.h"

namespace muster {

// Slurm itself notices the loss later, and starts a job again that may be requeued and still runs
// then. Waits for that; it ends this process. Returns at once where nothing of the kind follows (or
// the job is a detached one), after a signal, and when Slurm has had its time: the node is there
// for it. Blocks for minutes.
void AwaitRequeue(const JobSpec& spec, const std::string& lost_node);

}  // namespace muster
