#include "proto/base/core_limit.h"

#include <algorithm>
#include <optional>

namespace muster {
namespace {

// Less than any core file has, so none is begun; and the one value that also keeps the kernel from
// passing a core on where core_pattern is a program, which 0 does not (fs/coredump.c).
constexpr rlim_t kNoCore = 1;

std::optional<rlimit> g_before;  // a property of the process, as the limit is

}  // namespace

void WriteNoCores() {
  g_before = CoreLimitOfOthers();
  rlimit none = *g_before;
  // The hard limit stays, so that the programs that we start can have theirs.
  none.rlim_cur = std::min(kNoCore, none.rlim_max);
  setrlimit(RLIMIT_CORE, &none);
}

rlimit CoreLimitOfOthers() {
  rlimit own{};
  getrlimit(RLIMIT_CORE, &own);
  return g_before.value_or(own);
}

}  // namespace muster
