// The users of a daemon, by their secrets. Blocks on the file system.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/service/known_user.h"

namespace muster {

// From FOLDER/NAME, by name; what begins with a dot is left out. NAME: letters, digits, "._-", at
// most 64. Errors: FailedPrecondition (the folder or a file cannot be read, is not private, has a
// secret that is too short, or another user's), naming the file.
absl::StatusOr<std::vector<KnownUser>> ReadUsers(const std::string& folder);

}  // namespace muster
