// Which of the master's addresses is asked next, when, and what is told if none answers. Pure.
//
// Several masters that share a store have an address each, and one of them leads: the others say
// so at once, and the next is asked without a pause. After all have been asked comes a pause, twice
// as long each time. One that is not believed (another key than expected) is passed over like one
// that does not answer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

class TargetTurns {
 public:
  // At least one.
  explicit TargetTurns(std::vector<std::string> targets);

  bool many() const { return targets_.size() > 1; }
  const std::string& target() const { return targets_[at_]; }  // to be asked now

  struct Next {
    absl::Duration wait;  // before the next is asked
    // "A: refused; B: ..." when each has been asked, else "".
    std::string told;
    bool none_believed = false;  // each has been asked, and none of them is
  };
  // The present one could not be reached, does not lead, or was the master until now; or it is not
  // believed. `jitter`: 0..1, so that a thousand agents do not come together.
  Next Failed(absl::string_view why, bool believed, absl::Duration wait_min,
              absl::Duration wait_max, double jitter);
  // The present one is the master.
  void Answered();

 private:
  const std::vector<std::string> targets_;
  std::vector<std::string> failures_;  // of this round
  bool any_believed_ = false;          // of these
  size_t at_ = 0;
  int rounds_ = 0;  // in which none answered
};

}  // namespace muster
