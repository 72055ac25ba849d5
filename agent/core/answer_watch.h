// When a process that was asked something counts as hung (SIGSTOP, a wait in the kernel). Pure.
//
// Invariants:
//  S1 who answers in time is never called silent, and who is is called so once;
//  S2 who looks half a second late has stood still itself, perhaps with the whole job, which is
//  woken
//     one process after the other: the other one has a time anew.
#pragma once

#include "absl/time/time.h"
#include "agent/core/lease_watch.h"

namespace muster {

class AnswerWatch {
 public:
  // `after_standstill`: the time of S2.
  AnswerWatch(absl::Duration within, absl::Duration after_standstill)
      : within_(within), after_standstill_(after_standstill) {}

  // It is asked then, and has `within` from there on; replaces what was asked before.
  void Ask(absl::Time when) { due_ = when + within_; }
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
    due_ = late ? now + after_standstill_ : absl::InfiniteFuture();
    return !late;
  }

 private:
  const absl::Duration within_;
  const absl::Duration after_standstill_;
  absl::Time due_ = absl::InfiniteFuture();
};

}  // namespace muster
