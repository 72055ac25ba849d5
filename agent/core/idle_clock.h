// Since when the workers of a node do nothing: none runs, writes or counts a step. Pure.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace muster {

class IdleClock {
 public:
  // Threads that wait with a time-out wake up now and then: less than this share of one CPU for
  // each worker is no work.
  static constexpr double kBusyShare = 0.01;

  // All so far, as of one look; `living` workers.
  struct Seen {
    absl::Duration ran;
    uint64_t written = 0;  // bytes
    uint64_t steps = 0;
    uint32_t living = 0;
  };

  void Begin(absl::Time now) {
    active_ = now;
    looked_ = absl::InfinitePast();
  }

  // How long they have done nothing; zero where they have since the look before, or none lives.
  absl::Duration Look(const Seen& seen, absl::Time now) {
    const bool same = looked_ != absl::InfinitePast() && seen.living == last_.living &&
                      seen.written == last_.written && seen.steps == last_.steps;
    const absl::Duration allowed = (now - looked_) * (kBusyShare * seen.living);
    if (!same || seen.living == 0 || seen.ran - last_.ran > allowed) {
      active_ = now;
    }
    last_ = seen;
    looked_ = now;
    return now - active_;
  }

 private:
  Seen last_;
  absl::Time looked_ = absl::InfinitePast();
  absl::Time active_;
};

}  // namespace muster
