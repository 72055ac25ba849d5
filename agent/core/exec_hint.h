// Why a program cannot be run, for whom the kernel's words are not enough. Pure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// What has the program's name on its node.
enum class FileKind { kNone, kFile, kFolder };

// What to look at next, with "; " in front; "": nothing is known. `program` as the user has it,
// `error` that of its exec.
std::string ExecHint(absl::string_view program, int error, FileKind there);

}  // namespace muster
