// Waiting for one descriptor where there is no loop yet: an agent's start. Blocking; thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// Until `fd` is ready for `events` of poll(2), or has failed, which the next call on it says.
// DeadlineExceeded, with `awaited` in its text, at `deadline` of BootNow().
absl::Status AwaitFd(int fd, short events, absl::Time deadline, absl::string_view awaited);

// Up to the newline, which is read, too, and not one byte more; without it. DeadlineExceeded as
// above; Unavailable: the other side has closed it, or it has failed; InvalidArgument: more than
// `bytes_max` without a newline.
absl::StatusOr<std::string> AwaitLine(int fd, size_t bytes_max, absl::Time deadline,
                                      absl::string_view awaited);

}  // namespace muster
