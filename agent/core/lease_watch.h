// When a shepherd ends its workers as their lease is over, and when they only stand still as it was
// over before this process, stopped itself, could look. Pure.
//
// Invariants:
//  W1 nothing runs later than the first look after the end of the lease;
//  W2 workers that stand still for that go on only with a lease that ends later, and are ended if
//     none comes for as long as a lease lasts.
#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "proto/base/limits.h"

namespace muster {

// A look, or a step of the agent, this much later than it was to be: the process has stood still
// (SIGSTOP, a machine that slept), or was starved.
inline constexpr absl::Duration kStandstillSeen = absl::Milliseconds(500);

class LeaseWatch {
 public:
  enum class Due { kNothing, kStandStill, kKill };

  // The lease ends then; InfiniteFuture: there is none. False: workers that stand still have to.
  bool Set(absl::Time until, absl::Time now) {
    if (stands_still_ && until <= now) {
      return false;  // it was told before we stood still
    }
    stands_still_ = false;
    until_ = until;
    half_ = absl::InfiniteFuture();
    if (until > now && until != absl::InfiniteFuture()) {
      length_ = until - now;
      half_ = now + HalfOf(length_);
    }
    return true;
  }
  // When to look next.
  absl::Time next() const { return std::min(half_, until_); }
  // Who finds the end and has not seen the half of it, which a lease that is renewed never reaches,
  // has stood still for so long.
  Due Look(absl::Time now) {
    const bool late = half_ != absl::InfiniteFuture() || now - until_ > kStandstillSeen;
    if (now < until_) {
      half_ = now >= half_ ? absl::InfiniteFuture() : half_;
      return Due::kNothing;
    }
    stands_still_ = late;
    until_ = late ? now + length_ : absl::InfiniteFuture();
    half_ = late ? now + HalfOf(length_) : absl::InfiniteFuture();
    return late ? Due::kStandStill : Due::kKill;
  }
  bool stands_still() const { return stands_still_; }

 private:
  // In what timers count.
  static absl::Duration HalfOf(absl::Duration length) {
    return absl::Trunc(length / 2, absl::Nanoseconds(1));
  }

  absl::Time until_ = absl::InfiniteFuture();
  absl::Time half_ = absl::InfiniteFuture();  // of what is left of it; infinite: it has been seen
  absl::Duration length_ = kLease;            // of the last one
  bool stands_still_ = false;
};

}  // namespace muster
