// Readiness of a descriptor whose description others share (the terminal, a pipe of the shell):
// libuv would make it non-blocking for all of them, so it is watched through an epoll of our own,
// and the loop watches that.
#pragma once

#include <sys/epoll.h>

#include <cstdint>

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

}  // namespace muster
