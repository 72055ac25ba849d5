// What `launch --help` and `--help-all` print: made from the option table, so that it cannot miss
// an option. Pure; thread-safe.
#pragma once

#include <string>

namespace muster {

inline constexpr int kHelpWidth = 100;  // columns; longer lines are wrapped

// `all`: every option with every name and environment variable; else the common ones. `colour`:
// bold headings for a terminal.
std::string HelpText(bool all, bool colour = false);

// "launch 0.1.0-3f2a9c0d1e5b\n"
std::string VersionText();

}  // namespace muster
