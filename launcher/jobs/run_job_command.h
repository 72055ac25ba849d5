// `launch ps`, `attach`, `logs`, `stop`: commands about detached jobs of this user on this host.
#pragma once

#include <string>
#include <vector>

namespace muster {

// `words`: the command and what follows it; `launch`: how this program is called, for lines to
// copy. The exit code.
int RunJobCommand(const std::vector<std::string>& words, const std::string& launch);

}  // namespace muster
