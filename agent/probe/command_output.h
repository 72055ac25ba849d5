// What a short command prints, for facts that only a program of others knows. Blocking.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

// stdout of `argv` (the first is searched in PATH), at most 64 KiB of it; stderr goes nowhere, and
// what still runs at `deadline` of BootNow() is killed. Errors: NotFound, DeadlineExceeded, Unknown
// (it ended with another status than 0).
absl::StatusOr<std::string> CommandOutput(const std::vector<std::string>& argv,
                                          absl::Time deadline);

}  // namespace muster
