// Whether the shepherd still does what it is told, by what it answers (answer_watch.h). Pure.
//
// Invariants:
//  S4 a ping is not sent while a spawn is open, whose program may lie on a slow server: then the
//     spawn's own answer is awaited, for longer, and anew after each that comes;
//  S5 of leases only the last one's end is awaited: that it has seen an earlier one says nothing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "agent/core/answer_watch.h"

namespace muster {

// The shepherd serves an order within this time, or is held by the kernel. kKillWithin, and to
// spare.
inline constexpr absl::Duration kShepherdWithin = absl::Seconds(15);
// An exec from a server that does not answer: by then it is dead rather than slow, and nothing that
// ends on this node is noticed meanwhile.
inline constexpr absl::Duration kSpawnWithin = absl::Minutes(5);
inline constexpr absl::Duration kPingEvery = absl::Seconds(1);

class ShepherdWatch {
 public:
  // True: a ping is to be sent now.
  bool Ping(absl::Time now) {
    if (spawning_ > 0 || ping_.awaited() || now < next_ping_) {
      return false;
    }
    next_ping_ = now + kPingEvery;
    ping_.Ask(now);
    return true;
  }
  void Alive() { ping_.Answered(); }

  void SpawnAsked(absl::Time now) {
    if (spawning_++ == 0) {
      ping_.Answered();  // it would come behind the spawn
      spawn_.Ask(now);
    }
  }
  // Whether it runs or not.
  void SpawnAnswered(absl::Time now) {
    spawning_ -= spawning_ > 0 ? 1 : 0;
    if (spawning_ > 0) {
      spawn_.Ask(now);
    } else {
      spawn_.Answered();
    }
  }

  // It ends then, in nanoseconds of CLOCK_BOOTTIME; 0: there is none.
  void SetLease(int64_t boot_ns, absl::Time now) {
    lease_ = boot_ns;
    if (boot_ns == 0) {
      lease_seen_.Answered();
    } else {
      lease_seen_.Ask(std::max(absl::FromUnixNanos(boot_ns), now));
    }
  }
  void LeaseSeen(int64_t boot_ns) {
    if (boot_ns == lease_) {
      lease_seen_.Answered();
    }
  }

  // Nothing is awaited of one that is dead.
  void Forget() {
    spawning_ = 0;
    ping_.Answered();
    spawn_.Answered();
    lease_seen_.Answered();
  }

  // When to look next.
  absl::Time next() const { return std::min({ping_.next(), spawn_.next(), lease_seen_.next()}); }
  // True: it does not answer.
  bool IsSilent(absl::Time now) {
    const bool deaf = ping_.IsSilent(now);
    const bool held = spawn_.IsSilent(now);
    const bool late = lease_seen_.IsSilent(now);
    return deaf || held || late;
  }

 private:
  AnswerWatch ping_{kShepherdWithin, kShepherdWithin};
  AnswerWatch spawn_{kSpawnWithin, kShepherdWithin};
  AnswerWatch lease_seen_{kLeaseSeenWithin, kShepherdWithin};
  absl::Time next_ping_ = absl::InfinitePast();
  uint32_t spawning_ = 0;  // not answered yet
  int64_t lease_ = 0;      // the last one
};

}  // namespace muster
