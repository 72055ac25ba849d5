// What a thread waits for, from what the kernel says of it in /proc. Pure; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// /proc/PID/syscall: "running", "-1 SP PC" (in the kernel for another reason), or the number of the
// call, its six arguments, SP and PC, all but the first in hexadecimal.
struct ThreadCall {
  bool is_known = false;  // the text was one of these
  bool runs = false;
  int64_t number = -1;
  std::array<uint64_t, 6> arguments{};
};
ThreadCall ParseThreadCall(absl::string_view text);

// What its first argument says of the wait.
enum class CallOn : uint8_t {
  kNothing,
  kDescriptor,  // that it reads, writes, locks ...
  kChild,       // nothing, but it waits for a process of its own
};
struct CallKind {
  absl::string_view name;  // "recv"; "" = one that seldom waits
  CallOn on = CallOn::kNothing;
};
CallKind KindOfCall(int64_t number);

// /proc/net/tcp and tcp6: by inode of the socket, "10.77.0.1:29500", or "any at port 29500" of one
// that listens. Lines that are none count for nothing.
std::map<uint64_t, std::string> ParseTcpPeers(absl::string_view text);

// The target of /proc/PID/fd/N for people: "TCP 10.77.0.1:29500", "a pipe", "/data/x.lock",
// without what a terminal would take for a command.
std::string DescriptorText(absl::string_view target, const std::map<uint64_t, std::string>& peers);

}  // namespace muster
