#include "launcher/signal_fold.h"

namespace muster {
namespace {

// A controller tells its nodes one after the other; nobody asks a job for two checkpoints so soon.
constexpr absl::Duration kSpreadsWithin = absl::Seconds(3);

}  // namespace

bool SignalFold::IsNew(int signo, std::optional<NodeId> agent, absl::Time now) {
  Last& last = last_[signo];
  const bool first_time = last.heard_by.insert(agent).second;
  if (last.heard_by.size() > 1 && first_time && now < last.began + kSpreadsWithin) {
    return false;
  }
  last.began = now;
  last.heard_by = {agent};
  return true;
}

}  // namespace muster
