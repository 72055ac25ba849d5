// Reads the beginning of a file without ever waiting: a pipe or device in its place counts as
// unreadable. Any thread.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "proto/base/unique_fd.h"

namespace muster {

// Opens a regular file for reading; invalid when it cannot.
inline UniqueFd OpenRegular(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat st {};
  if (fd.valid() && (fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode))) {
    fd.Reset();
  }
  return fd;
}

inline constexpr size_t kReadAtFirst = 8u << 10;  // most files are smaller than what may be read

// Up to `bytes_max` bytes from `offset`; fewer at the end of the file or on an error.
inline std::string ReadAt(int fd, size_t offset, size_t bytes_max) {
  std::string out;
  size_t have = 0;
  while (have < bytes_max) {  // files of /proc and /sys give a page at a time
    out.resize(std::min(bytes_max, std::max(2 * have, kReadAtFirst)));
    const ssize_t n =
        pread(fd, out.data() + have, out.size() - have, static_cast<off_t>(offset + have));
    if (n <= 0) {
      break;
    }
    have += static_cast<size_t>(n);
  }
  out.resize(have);
  return out;
}

// "" when there is no such file.
inline std::string ReadHead(const std::string& path, size_t bytes_max) {
  const UniqueFd fd = OpenRegular(path);
  return fd.valid() ? ReadAt(fd.get(), 0, bytes_max) : "";
}

}  // namespace muster
