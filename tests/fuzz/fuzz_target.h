// What every fuzzer of this folder is made of. A target is one file with the two functions below;
// it calls a parser with any bytes. What a sanitizer says, and a CHECK that fails, is a find.
//
// With MUSTER_SEEDS=FOLDER a fuzzer writes its seeds there and ends, so that they never differ from
// what the parser of this build reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster::fuzz {

// Inputs worth beginning with: whole and right ones of each kind, and those that once were a find.
std::vector<std::string> Seeds();

// One input. Never keeps anything for the next one.
void Run(absl::string_view bytes);

}  // namespace muster::fuzz
