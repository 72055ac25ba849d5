// Readiness of a descriptor whose description others share (the terminal, a pipe of the shell):
// libuv would make it non-blocking for all of them, so it is watched through an epoll of our own,
// and the loop watches that. And writing to it without a loop: any of the others may have made it
// non-blocking for us.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "proto/base/unique_fd.h"

namespace muster {

// Readable whenever `fd` has one of `events` (EPOLLIN, EPOLLOUT), is at its end or has failed.
// Invalid where readiness means nothing: regular files, /dev/null.
inline UniqueFd WatchShared(int fd, uint32_t events) {
  UniqueFd watcher(epoll_create1(EPOLL_CLOEXEC));
  epoll_event wanted{};
  wanted.events = events;
  if (watcher.valid() && epoll_ctl(watcher.get(), EPOLL_CTL_ADD, fd, &wanted) != 0) {
    watcher.Reset();
  }
  return watcher;
}

// How many of the bytes `fd` has taken, perhaps none: a non-blocking one is full, or a signal came.
// nullopt with errno: nobody reads them any more, or the device has failed.
inline std::optional<size_t> TryWriteShared(int fd, absl::string_view bytes) {
  const ssize_t n = write(fd, bytes.data(), bytes.size());
  if (n < 0 && errno != EINTR && errno != EAGAIN) {
    return std::nullopt;
  }
  return n > 0 ? static_cast<size_t>(n) : 0;
}

// Whether a write has failed for want of room, not of a reader.
inline bool IsFullDisk(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

// All of them; blocks until they are written, as on a blocking one. False with errno: as above.
inline bool WriteShared(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const std::optional<size_t> taken = TryWriteShared(fd, bytes);
    if (!taken.has_value()) {
      return false;
    }
    bytes.remove_prefix(*taken);
    if (*taken == 0) {
      pollfd room = {fd, POLLOUT, 0};
      poll(&room, 1, -1);  // what has failed is ready, too, and the next write says so
    }
  }
  return true;
}

}  // namespace muster
