// What a failed worker's last words ask for, where launch knows a remedy. Pure; thread-safe.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// A line without its end, as "it wants --local_rank: ..."; "" where nothing is known.
// `python_dir`: the folder that has Muster's own package for Python, "" if there is none.
std::string TailHint(absl::string_view stderr_tail, absl::string_view python_dir = {});

}  // namespace muster
