// Of a Slurm job that has lost a node: whether Slurm starts it again, and when it knows of the
// loss, in scontrol's words. Pure functions; thread-safe.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// By `scontrol show job`: sbatch --requeue, or the site's JobRequeue.
bool MayBeRequeued(absl::string_view job);

// By `scontrol show config`: until a node that is gone is down to Slurm, and its jobs are started
// again. No value: it does not say, or SlurmdTimeout=0 (never).
std::optional<absl::Duration> NodeIsDownWithin(absl::string_view config);

}  // namespace muster
