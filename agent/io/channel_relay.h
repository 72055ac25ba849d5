// Makes one connected socket of a pair of descriptors (ssh gives a program two pipes), because gRPC
// wants a socket. A thread of its own copies both ways; where both already are one socket, nothing
// is copied.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/unique_fd.h"

namespace muster {

class ChannelRelay {
 public:
  // Takes both descriptors. Starts a thread (unless they are one socket): call after the last fork.
  static absl::StatusOr<std::unique_ptr<ChannelRelay>> Start(UniqueFd in, UniqueFd out);
  virtual ~ChannelRelay() = default;

  virtual UniqueFd TakeSocket() = 0;  // once
  // After the socket was closed: waits until what was written to it has left, or `within` has
  // passed.
  virtual void Drain(absl::Duration within) = 0;
};

}  // namespace muster
