// A worker that could not be started, in words.
#pragma once

#include <string>

#include "agent/io/spawn.h"

namespace muster {

// "exec ./prog: No such file or directory; ...": the step that failed, the system's reason, and
// what to look at next. It looks at the files that were to be run.
std::string WhyNot(const SpawnRequest& request, const SpawnResult& failed);

}  // namespace muster
