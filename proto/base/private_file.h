// Files that only their owner may read or change, and that are complete when they have their name;
// also on a shared file system, and without locks. Any thread; blocks on the file system.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Errors: NotFound; FailedPrecondition when it is no regular file, belongs to another user (root
// may let our group read one of its own), may be read or changed by others, or is longer than
// `bytes_max` (each with how to mend it).
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t bytes_max);

// All folders of the path of `file` that are missing, for their owner only (mode 0700).
absl::Status MakePrivateFolders(const std::string& file);

// Where the links at `path` lead, so that not they are replaced; `path` itself where it is none, or
// where nothing is yet. FailedPrecondition: a link of another user than us and root, or too many.
absl::StatusOr<std::string> BehindOwnLinks(const std::string& path);

// A new file beside `path`, complete and on disk; its name.
absl::StatusOr<std::string> WritePrivateTemp(const std::string& path, absl::string_view bytes);

// Puts such a file in the place of `path`, whatever is there: who reads it sees the one or the
// other.
absl::Status ReplacePrivateFile(const std::string& path, absl::string_view bytes);

// Gives the file `temp` the name `path`, too, unless that is taken: of all that try at the same
// time, true for one. FailedPrecondition where the file system has no hard links.
absl::StatusOr<bool> LinkUnlessTaken(const std::string& temp, const std::string& path);

}  // namespace muster
