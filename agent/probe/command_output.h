// What a short command prints, for facts that only a program of others knows. Blocking.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

inline constexpr size_t kSaysBytesMax = 64u << 10;  // of a line or two, as most say

// stdout of `argv` (the first is searched in PATH); stderr goes nowhere, and what still runs at
// `deadline` of BootNow() is killed. Errors: NotFound, DeadlineExceeded, ResourceExhausted (it says
// more than `bytes_max`, and is killed), Unknown (it ended with another status than 0).
absl::StatusOr<std::string> CommandOutput(const std::vector<std::string>& argv, absl::Time deadline,
                                          size_t bytes_max = kSaysBytesMax);

}  // namespace muster
