// After a start over several hosts that failed: what `launch doctor` finds there.
#pragma once

#include "launcher/job_spec.h"

namespace muster {

// Runs launch doctor for the nodes of `spec`, and shows its table on stderr. Blocks for 20 s at
// most; Ctrl-C and its kin end it at once.
void ExamineNodes(const JobSpec& spec);

}  // namespace muster
