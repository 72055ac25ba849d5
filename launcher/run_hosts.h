// Several nodes that launch starts itself: over ssh, or as children for this machine and
// --standalone. Master and display are in this process; the control stream of each node runs inside
// the channel that started its agent.
#pragma once

#include "launcher/job_spec.h"

namespace muster {

// Blocks until the job has ended; the exit code of launch. `agent_path`: muster-agent beside this
// program.
int RunHosts(JobSpec spec, const std::string& agent_path);

}  // namespace muster
