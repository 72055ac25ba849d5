// Lines of children as lines of ours. Pure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// What `who`, a host or a program, has said, with its name in front once: an agent's line begins
// with our own name, and mostly with its host's.
std::string SaidBy(absl::string_view who, absl::string_view line);

}  // namespace muster
