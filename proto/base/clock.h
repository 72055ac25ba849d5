// Monotonic instants as absl::Time (epoch = boot). Cores get `now` as an argument; only loops call
// this.
#pragma once

#include <ctime>

#include "absl/time/time.h"

namespace muster {

// CLOCK_BOOTTIME: goes on while the machine sleeps, so a lease also ends there.
inline absl::Time BootNow() {
  timespec t{};
  clock_gettime(CLOCK_BOOTTIME, &t);
  return absl::UnixEpoch() + absl::DurationFromTimespec(t);
}

// What the calling thread has computed so far, whatever it waited for.
inline absl::Duration ThreadTime() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return absl::DurationFromTimespec(t);
}

}  // namespace muster
