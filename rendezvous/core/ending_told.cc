// What the user is told of failures and stops before their end.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/cause.h"
#include "rendezvous/core/machine.h"
#include "rendezvous/core/stop_told.h"

namespace muster {
namespace {

// Lines about failures while the round goes on; the report names all.
constexpr uint32_t kFailuresToldMax = 16;

// Workers that end at once are told of with their round's end; else what they are stopped for is
// said before it.
constexpr absl::Duration kStopUntold = absl::Seconds(2);
constexpr absl::Duration kStopToldEvery = absl::Seconds(10);

}  // namespace

void TellFailure(Machine& m, const std::string& what) {
  uint32_t& told = m.state.failures_told;
  if (told < kFailuresToldMax) {
    m.out.push_back(Tell{absl::StrCat(what, "; the others go on (--on-failure=continue)")});
  } else if (told == kFailuresToldMax) {
    m.out.push_back(Tell{"more workers fail; the report at the end names them all"});
  }
  ++told;
}

void TellFailures(Machine& m, size_t first) {
  const std::vector<ExitRecord>& exits = m.state.report.exits;
  for (size_t i = first; i < exits.size(); ++i) {
    if (IsFailure(exits[i].exit)) {
      TellFailure(m, ExitSentence(exits[i]));
    }
  }
}

void TellStopLater(Machine& m) {
  const bool by_user = m.state.stop_reason == StopReason::kUser;  // launch tells them
  m.state.next_tell = by_user ? absl::InfiniteFuture() : m.now + kStopUntold;
}

void TellStopping(Machine& m) {
  RoundState& s = m.state;
  if (s.phase != JobPhase::kStopping || m.now < s.next_tell) {
    return;
  }
  const bool first = s.next_tell == s.stop_began + kStopUntold;
  const uint32_t left = WorkersLeft(s);
  const absl::Duration rest = s.stop_began + s.stop_grace - m.now;
  if (left == 0 || rest <= absl::ZeroDuration()) {
    s.next_tell = absl::InfiniteFuture();
    return;
  }
  s.next_tell = m.now + kStopToldEvery;
  m.out.push_back(Tell{first ? absl::StrCat(WhyStopping(s), "; ", StopSentence(left, rest))
                             : WaitSentence(left, rest, "")});
}

}  // namespace muster
