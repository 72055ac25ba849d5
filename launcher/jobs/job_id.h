// Names of jobs to which the user gave none.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Short, unique enough for a log folder.
std::string MakeJobId();
// Whether it may be one that MakeJobId made.
bool IsJobId(absl::string_view word);

}  // namespace muster
