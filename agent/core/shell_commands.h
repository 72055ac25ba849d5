// The commands of a shell script, as far as they can be read without running it: for what looks at
// the programs that a job will run, where a script runs them. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

struct ShellCommand {
  std::vector<std::string> words;  // at least one: the program's name, then its arguments
};

// Not more than this of one script: it only has to be looked at.
inline constexpr size_t kShellCommandsMax = 256;

// Simple commands (POSIX, XCU 2.9.1) in their order, without assignments, redirections, and the
// words of the grammar before them ("if", "exec", ...). `arguments` are the script's $1, $2, ...:
// where a command's words are "$@", $*, $1 and their like, also behind `shift`, they are in their
// place. What other expansions give is not known: such words stay as they are written, and commands
// that begin with one are left out. Text that no shell would take gives something, too.
std::vector<ShellCommand> ShellCommands(absl::string_view text,
                                        const std::vector<std::string>& arguments);

}  // namespace muster
