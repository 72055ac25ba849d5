#pragma once

#include <cerrno>

namespace muster {

// Of an errno: the same system call may succeed later.
inline bool IsMomentary(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace muster
