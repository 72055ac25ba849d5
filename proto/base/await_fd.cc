#include "proto/base/await_fd.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"

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

}  // namespace muster
