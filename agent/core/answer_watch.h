// When a process that was asked something counts as hung (SIGSTOP, a wait in the kernel). Pure.
//
// Invariants:
//  S1 who answers in time is never called silent, and who is is called so once;
//  S2 who looks half a second late has stood still itself, perhaps with all of the job, whose
//     processes wake one after the other: the other one has a time anew;
//  S3 nobody is silent who has not had kOnceMore after the first look in vain: whoever stood still
//     until shortly before it cannot tell that by S2.
#pragma once

#include <utility>

#include "absl/time/time.h"
#include "agent/core/lease_watch.h"

namespace muster {

// For a shepherd to say that it has seen its lease's end. With AnswerWatch::kOnceMore less than
// kLeaseSlack: workers end before others take their ranks.
inline constexpr absl::Duration kLeaseSeenWithin = absl::Seconds(1);

class AnswerWatch {
 public:
  static constexpr absl::Duration kOnceMore = absl::Milliseconds(400);

  // `after_standstill`: the time of S2.
  AnswerWatch(absl::Duration within, absl::Duration after_standstill)
      : within_(within), after_standstill_(after_standstill) {}

  // It is asked then, and has `within` from there on; replaces what was asked before.
  void Ask(absl::Time when) {
    due_ = when + within_;
    looked_ = false;
  }
  void Answered() { due_ = absl::InfiniteFuture(); }
  bool awaited() const { return due_ != absl::InfiniteFuture(); }
  // When to look next.
  absl::Time next() const { return due_; }
  // True: it is silent, and is not awaited any longer.
  bool IsSilent(absl::Time now) {
    if (now < due_) {
      return false;
    }
    const bool late = now - due_ > kStandstillSeen;
    const bool silent = !late && std::exchange(looked_, !late);
    due_ = late ? now + after_standstill_ : silent ? absl::InfiniteFuture() : now + kOnceMore;
    return silent;
  }

 private:
  const absl::Duration within_;
  const absl::Duration after_standstill_;
  absl::Time due_ = absl::InfiniteFuture();
  bool looked_ = false;  // in vain
};

}  // namespace muster
