// How pure functions of launch read a file: its text, or why it cannot be had.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace muster {

using FileReader = std::function<absl::StatusOr<std::string>(const std::string& path)>;

}  // namespace muster
