// Which agent has this node's place in a job. An agent takes it before its shepherd begins, and
// both keep it until they end: whoever is started again for the place waits until nothing of the
// life before is left. An abstract unix socket, which ends with its holders and leaves no file.
// Blocking.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/messages.h"
#include "proto/base/unique_fd.h"

namespace muster {

inline constexpr size_t kHoldNameBytesMax = 64;  // with our prefix it fits a socket's address

struct NodeHold {
  UniqueFd socket;
  // What says to others that it is held: the name, and all that it is one of a kind in (this boot,
  // network namespace and user). None where the system does not say.
  Hold hold;
};

// Errors: DeadlineExceeded (still held after `within`), Unavailable (another user's socket has the
// name, or the system gives none), InvalidArgument (the name is empty or too long).
absl::StatusOr<NodeHold> TakeNodeHold(const std::string& name, absl::Duration within);

}  // namespace muster
