// For how long a rank gives its core away between looks before it sleeps, learnt from how its last
// waits went. Pure.
//
// Giving the core away is the quickest wait where the one that is waited for gets it. It never does
// where it belongs to another session than ours (sched_autogroup, see sched(7)) or is busy with
// something else for long: then every wait would take the longest time, and sleep after all.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace muster {

class Patience {
 public:
  using Time = std::chrono::nanoseconds;

  explicit Patience(Time most) : most_(most), now_(most) {}

  // For the wait that begins. Now and then the longest: what was in vain may have become worth it.
  Time ForNext() {
    if (now_ < most_ && --until_try_ == 0) {
      tries_after_ = std::min(2 * tries_after_, kTriesAfterMax);
      until_try_ = tries_after_;
      return most_;
    }
    return now_;
  }
  // How that wait went.
  void Ended(Time took, bool slept) {
    if (slept) {
      now_ = std::max(now_ / 2, std::min(kLeast, most_));
    } else if (4 * took > now_) {
      now_ = std::min(4 * took, most_);
      tries_after_ = until_try_ = kTriesAfterMin;
    }
  }

 private:
  static constexpr Time kLeast{1000};
  static constexpr uint32_t kTriesAfterMin = 16;
  static constexpr uint32_t kTriesAfterMax = 1024;

  Time most_;
  Time now_;
  uint32_t tries_after_ = kTriesAfterMin;
  uint32_t until_try_ = kTriesAfterMin;
};

}  // namespace muster
