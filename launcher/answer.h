// What launch answers on its stdout where it runs no job: help, a plan, a table, JSON.
#pragma once

#include "absl/strings/string_view.h"

namespace muster {

// Writes all of it, however long the reader takes. 0; else UnwrittenCode.
int PrintAnswer(absl::string_view text);

// Whether an answer is shown in colour and bold: on a terminal, unless the user says otherwise
// (`no_color`: $NO_COLOR, any text that is not empty; https://no-color.org), or it is one that may
// not know the codes (`term`: $TERM, "dumb" or ""). Pure.
bool WantsColour(bool terminal, absl::string_view no_color, absl::string_view term);

// WantsColour of our stdout and environment. All that writes colour asks here.
bool ColourOnStdout();

// The exit code where a write to stdout has failed with this errno: kExitNobodyReads, as of a
// program that SIGPIPE has ended; else, as on a full disk, kExitFailed, and the reason is said.
int UnwrittenCode(int error);

}  // namespace muster
