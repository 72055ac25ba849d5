// launch sweep: runs launch itself with each combination, reads its output and its report, prints
// what they have shown.
#pragma once

#include <string>
#include <vector>

namespace muster {

// The exit status of `launch sweep`. `words`: "sweep" and what follows it.
int RunSweep(const std::vector<std::string>& words);

}  // namespace muster
