// What launch answers on its stdout where it runs no job: help, a plan, a table, JSON.
#pragma once

#include "absl/strings/string_view.h"

namespace muster {

// Writes all of it, however long the reader takes. 0; else UnwrittenCode.
int PrintAnswer(absl::string_view text);

// The exit code where a write to stdout has failed with this errno: kExitNobodyReads, as of a
// program that SIGPIPE has ended; else, as on a full disk, kExitFailed, and the reason is said.
int UnwrittenCode(int error);

}  // namespace muster
