// A line of the daemon's log. What agents say of themselves is in it: none of that begins another
// line, or moves a terminal.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// `text` with its control characters shown: "\n", "\x1b". Pure.
std::string LogLine(absl::string_view text);

}  // namespace muster
