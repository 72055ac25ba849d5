// Whole pieces over a non-blocking socket, with a deadline of BootNow(). Blocking.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace muster {

// Errors: DeadlineExceeded, Unavailable (the connection ended; errno's words).
absl::Status SendAll(int fd, const char* bytes, size_t size, absl::Time deadline);
absl::Status ReceiveAll(int fd, char* bytes, size_t size, absl::Time deadline);
// The length in front of a frame: eight bytes, little-endian.
absl::Status SendFrameSize(int fd, size_t size, absl::Time deadline);
absl::StatusOr<size_t> ReceiveFrameSize(int fd, absl::Time deadline);

}  // namespace muster
