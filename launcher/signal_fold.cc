#include "launcher/signal_fold.h"

#include <csignal>

namespace muster {
namespace {

// A controller tells its nodes one after the other; nobody asks a job for two checkpoints so soon.
constexpr absl::Duration kSpreadsWithin = absl::Seconds(3);
// One press of Ctrl-C comes twice where the terminal sends it to launch, and what launch runs under
// (timeout, npm) passes it on, too.
constexpr absl::Duration kOnePress = absl::Milliseconds(100);

}  // namespace

bool SignalFold::IsNew(int signo, std::optional<NodeId> agent, absl::Time now) {
  Last& last = last_[signo];
  if (signo == SIGINT && last.heard_by.contains(agent) && now < last.began + kOnePress) {
    return false;
  }
  const bool first_time = last.heard_by.insert(agent).second;
  if (last.heard_by.size() > 1 && first_time && now < last.began + kSpreadsWithin) {
    return false;
  }
  last.began = now;
  last.heard_by = {agent};
  return true;
}

}  // namespace muster
