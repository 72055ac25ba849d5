// A TCP connection where there is no loop: an agent's start, its probe. No thread of libuv's is
// made. Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/unique_fd.h"

namespace muster {

// A non-blocking socket with TCP_NODELAY on its way to the first address of `host`. A name blocks
// as long as its resolver does, an address not at all. Unavailable: neither, no descriptor left, or
// refused at once.
absl::StatusOr<UniqueFd> BeginConnect(const std::string& host, const std::string& port);

// What became of it, once it is writable. Unavailable: refused, no route.
absl::Status ConnectOutcome(int fd);

// Both, and the wait until `deadline` of BootNow(): DeadlineExceeded.
absl::StatusOr<UniqueFd> ConnectTcp(const std::string& host, const std::string& port,
                                    absl::Time deadline);

}  // namespace muster
