#include "rendezvous/core/stop_told.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/text.h"

namespace muster {

uint32_t WorkersLeft(const RoundState& state) {
  uint32_t left = 0;
  for (const auto& [id, node] : state.nodes) {
    if (node.status == NodeStatus::kAlive || node.status == NodeStatus::kSuspect) {
      left += node.workers_alive;
    }
  }
  return left;
}

absl::Duration GraceLeft(const RoundState& state, absl::Duration grace, absl::Time now) {
  if (state.phase != JobPhase::kStopping) {
    return grace;
  }
  const absl::Duration left = state.stop_began + state.stop_grace - now;
  return std::max(std::min(grace, left), absl::ZeroDuration());
}

std::string StopSentence(uint32_t workers_left, absl::Duration rest) {
  return absl::StrCat("stopping ", Plural(workers_left, "worker", "workers"),
                      "; what still runs in ", ShortDuration(std::max(rest, absl::ZeroDuration())),
                      " is killed");
}

std::string WaitSentence(uint32_t workers_left, absl::Duration rest, const std::string& guess) {
  const absl::Duration whole = absl::Ceil(rest, absl::Seconds(1));
  return absl::StrCat("waiting for ", Plural(workers_left, "worker", "workers"), guess, ", ",
                      whole < absl::Minutes(1) ? absl::StrCat(absl::ToInt64Seconds(whole), " s")
                                               : ShortDuration(whole),
                      " left");
}

}  // namespace muster
