// muster-agent --probe: says on stdout what it finds on its node, reads on stdin where the other
// probes listen, tries them, says what came of it. Runs as a worker of the job that `launch doctor`
// starts.
#pragma once

#include <string>

namespace muster {

// The exit status. `request`: ParseProbeRequest.
int RunProbe(const std::string& request);

}  // namespace muster
