// How long a master may be silent before it is left for another. Pure.
//
// Every beat is answered at once. So of several masters one that is silent is left soon. A single
// one is left only where it has a journal: its machine may have gone without a word, and another
// one has its name; but later, as its answers may wait for a disk, and not while its job is paused,
// when it may stand still itself (Ctrl-Z), nor at the job's end, when it may go.
#pragma once

#include <algorithm>
#include <optional>
#include <variant>

#include "absl/time/time.h"
#include "proto/base/messages.h"

namespace muster {

class MasterSilence {
 public:
  enum class Masters { kSeveral, kOne, kNoOther };  // the last: the connection is a given one

  // `max`: of one of several.
  MasterSilence(Masters masters, absl::Duration max) : masters_(masters), max_(max) {}

  // Connected anew: to one that may have another journal, which it says as it admits.
  void Up() { may_stand_still_ = false; }
  void Heard(const MasterMessage& message) {
    if (const auto* admitted = std::get_if<Admitted>(&message)) {
      journal_lease_ = admitted->journal ? std::optional(admitted->lease) : std::nullopt;
    } else if (const auto* directive = std::get_if<Directive>(&message)) {
      may_stand_still_ = directive->paused || directive->wanted == Wanted::kEnd;
    }
  }
  // From the last word on; infinite: it is not left.
  absl::Duration max() const {
    if (masters_ == Masters::kSeveral) {
      return max_;
    }
    const bool is_left = masters_ == Masters::kOne && journal_lease_.has_value();
    return is_left && !may_stand_still_ ? std::max(max_, *journal_lease_ / 2)
                                        : absl::InfiniteDuration();
  }

 private:
  const Masters masters_;
  const absl::Duration max_;
  std::optional<absl::Duration> journal_lease_;  // of a master with a journal
  bool may_stand_still_ = false;
};

}  // namespace muster
