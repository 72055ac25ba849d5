// The kernel's limits of a process by the names that srun's --propagate and `ulimit` give them.
#pragma once

#include <sys/resource.h>

#include "absl/strings/string_view.h"

namespace muster {

struct LimitName {
  absl::string_view name;
  __rlimit_resource resource;
};
inline constexpr LimitName kLimitNames[] = {
    {"as", RLIMIT_AS},
    {"core", RLIMIT_CORE},
    {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},
    {"fsize", RLIMIT_FSIZE},
    {"memlock", RLIMIT_MEMLOCK},
    {"nofile", RLIMIT_NOFILE},
    {"nproc", RLIMIT_NPROC},
    {"rss", RLIMIT_RSS},
    {"stack", RLIMIT_STACK},
    {"sigpending", RLIMIT_SIGPENDING},
    {"msgqueue", RLIMIT_MSGQUEUE},
};

}  // namespace muster
