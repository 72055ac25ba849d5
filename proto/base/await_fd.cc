#include "proto/base/await_fd.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace muster {

absl::Status AwaitFd(int fd, short events, absl::Time deadline, absl::string_view awaited) {
  while (true) {
    const int64_t left_ms = absl::ToInt64Milliseconds(deadline - BootNow());
    pollfd entry{fd, events, 0};
    const int n = poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left_ms, 0, 1 << 30)));
    if (n > 0) {
      return absl::OkStatus();
    }
    if (n < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
    }
    if (n == 0 && left_ms <= 0) {
      return absl::DeadlineExceededError(absl::StrCat(awaited, " did not come in time"));
    }
  }
}

absl::StatusOr<std::string> AwaitLine(int fd, size_t bytes_max, absl::Time deadline,
                                      absl::string_view awaited) {
  std::string line;
  while (line.size() <= bytes_max) {
    RETURN_IF_ERROR(AwaitFd(fd, POLLIN, deadline, awaited));
    char one = 0;
    const ssize_t n = read(fd, &one, 1);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
      return absl::UnavailableError("the connection was closed");
    }
    if (n == 1 && one == '\n') {
      return line;
    }
    line.append(n == 1 ? 1 : 0, one);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(awaited, ": a line of more than ", bytes_max, " bytes"));
}

}  // namespace muster
