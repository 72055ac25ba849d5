// launch doctor: starts the probes as a job of launch, puts what they say together, prints what is
// to be made of it.
#pragma once

#include <string>
#include <vector>

namespace muster {

// The exit status of `launch doctor`. `words`: "doctor" and what follows it; `agent_path`:
// muster-agent beside this program.
int RunDoctor(const std::vector<std::string>& words, const std::string& agent_path);

}  // namespace muster
