// The users of a daemon, by their secrets. Blocks on the file system.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/service/known_user.h"

namespace muster {

struct Users {
  std::vector<KnownUser> known;       // by name
  std::vector<std::string> left_out;  // "FOLDER/NAME: why"
};

// From FOLDER/NAME; what begins with a dot is none. NAME: letters, digits, "._-", at most 64. Left
// out, so that one mistake is not everybody's: a file that cannot be read, is not private, has a
// secret that is too short, or another's, who is left out, too. Errors: FailedPrecondition (the
// folder cannot be read, or has too many).
absl::StatusOr<Users> ReadUsers(const std::string& folder);

}  // namespace muster
