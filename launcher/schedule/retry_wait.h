// How long a starter waits before it tries a command again. Pure.
#pragma once

#include "absl/time/time.h"

namespace muster {

// After `tries` of it (1 and more): `first`, then twice as long each time; of that 0.5 to 1.5 by
// `unit` (0 to 1, by chance), so that those that failed together do not come again together.
inline absl::Duration RetryWait(absl::Duration first, int tries, double unit) {
  return first * (1 << (tries - 1)) * (0.5 + unit);
}

}  // namespace muster
