// PMI-1's lines: "cmd=put kvsname=k key=a value=b\n". Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Told to each worker; their own bounds follow them.
inline constexpr size_t kPmi1NameMax = 256;
inline constexpr size_t kPmi1KeyMax = 64;
inline constexpr size_t kPmi1ValueMax = 1024;
// A value in which each byte is escaped, and the words around it.
inline constexpr size_t kPmi1LineMax = 4096;

struct Pmi1Line {
  std::string command;
  // As they came: what a client has escaped it also reads as such, and one of before escapes had a
  // meaning finds its backslashes as they were.
  std::vector<std::pair<std::string, std::string>> fields;

  // nullptr: there is none. The first one counts.
  const std::string* Find(absl::string_view name) const;
};

// One line without its end. Errors: InvalidArgument.
absl::StatusOr<Pmi1Line> ParsePmi1(absl::string_view line);

// A text as one value: spaces, line ends and backslashes are escaped, and read back.
std::string EscapePmi1(absl::string_view text);
std::string UnescapePmi1(absl::string_view value);

}  // namespace muster
