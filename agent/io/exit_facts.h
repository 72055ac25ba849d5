// What can be learnt about a worker that has ended: torch's error file, and whether the kernel's
// out-of-memory killer struck in our memory cgroup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace muster {

struct ErrorFile {
  std::string message;                // "" = none was written, or it cannot be read
  std::optional<absl::Duration> age;  // with `message`: since it was written
  std::string text;                   // the whole file, nonsense too
};

// TORCHELASTIC_ERROR_FILE, as torchrun's: JSON {"message": {"message": ...}} or {"message": "..."}.
// When it was written the file system says, more exactly than the seconds in it. Bounded by
// kErrorFileBytesMax; nonsense gives an empty message.
ErrorFile ReadErrorFile(const std::string& path);

// Kills by the kernel for lack of memory in our cgroup so far (v2 memory.events, v1
// memory.oom_control). `proc_cgroup` is /proc/self/cgroup, `root` is /sys/fs/cgroup but for tests.
uint64_t OomKills(const std::string& proc_cgroup, const std::string& root);

}  // namespace muster
