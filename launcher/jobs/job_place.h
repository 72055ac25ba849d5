// The folders below which the user's detached jobs are kept: DIR/muster/jobs, where DIR is
// $XDG_RUNTIME_DIR, unless that goes when its user logs out; else $XDG_STATE_HOME or
// ~/.local/state. Nobody else can put a job there, or turn ours elsewhere. Blocks on the file
// system.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// Where a new job goes; made if need be. FailedPrecondition: says which folder, and what to do.
absl::StatusOr<std::string> MakeJobPlace();
// All that there are. One that others may change is logged and left out.
std::set<std::string> JobPlaces();

// What is said when a file or folder of a new job cannot be made; `error` is an errno.
absl::Status CannotKeepAt(const std::string& path, int error);

}  // namespace muster
