// What makes two files of one name on unlike nodes equal. Any thread; blocks on the file system.
#pragma once

#include <string>

#include "absl/strings/escaping.h"
#include "agent/io/small_file.h"
#include "proto/wire/secret.h"

namespace muster {

// Of its first bytes, up to `bytes_max`: 16 hexadecimal digits of a hash. What differs behind them
// differs in length, too, most of the time.
inline std::string FileMark(int fd, size_t bytes_max) {
  constexpr size_t kDigits = 16;
  return absl::BytesToHexString(HmacSha256("muster", ReadAt(fd, 0, bytes_max))).substr(0, kDigits);
}

}  // namespace muster
