#include "agent/core/target_turns.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster {

TargetTurns::TargetTurns(std::vector<std::string> targets) : targets_(std::move(targets)) {}

TargetTurns::Next TargetTurns::Failed(absl::string_view why, bool believed, absl::Duration wait_min,
                                      absl::Duration wait_max, double jitter) {
  constexpr int kDoublingsMax = 16;
  const bool named = !many() || absl::StartsWith(why, target());
  failures_.push_back(named ? std::string(why) : absl::StrCat(target(), ": ", why));
  any_believed_ |= believed;
  at_ = (at_ + 1) % targets_.size();
  if (failures_.size() < targets_.size()) {
    return {absl::ZeroDuration(), "", false};
  }
  const absl::Duration wait =
      std::min(wait_max, wait_min * (int64_t{1} << std::min(rounds_, kDoublingsMax)));
  ++rounds_;
  return {wait * (0.5 + jitter), absl::StrJoin(std::exchange(failures_, {}), "; "),
          !std::exchange(any_believed_, false)};
}

void TargetTurns::Answered() {
  rounds_ = 0;
  failures_.clear();
  any_believed_ = false;
}

}  // namespace muster
