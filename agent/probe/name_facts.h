// Names asked of the system's resolver, which may take as long as it likes: a name that has not
// come by then is given up, together with the thread that waits for it.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/probe/probe_lines.h"

namespace muster {

// All at the same time, in the order of `names`; back at `deadline` of BootNow() at the latest.
std::vector<ResolvedName> ResolveNames(const std::vector<std::string>& names, absl::Time deadline);

}  // namespace muster
