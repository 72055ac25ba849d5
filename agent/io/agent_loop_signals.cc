// When the workers get a signal.
#include <utility>

#include "absl/time/time.h"
#include "agent/io/agent_loop.h"

namespace muster {
namespace {

// So long a stop waits for a worker that ends by itself.
constexpr absl::Duration kFailingWithin = absl::Seconds(2);

}  // namespace

void AgentLoop::Do(const SignalRound& effect) {
  use_.LookBeforeEnd();
  if (effect.stops && door_.IsAnyFailing() && !failing_timer_.active()) {
    failing_timer_.StartAfter(kFailingWithin);
  }
  if (pmix_.starting() || failing_timer_.active()) {
    return SignalLater(effect);
  }
  shepherd_.Signal(effect.signo, effect.stops);
}

// Workers that wait for their PMIx server get it once they are there; those of whom one is about to
// end, when it has ended.
void AgentLoop::SignalLater(const SignalRound& order) {
  std::erase_if(signals_later_, [&](const SignalRound& one) { return one.signo == order.signo; });
  signals_later_.push_back(order);
}

void AgentLoop::SignalNow() {
  failing_timer_.Stop();
  for (const SignalRound& order : std::exchange(signals_later_, {})) {
    shepherd_.Signal(order.signo, order.stops);
  }
}

}  // namespace muster
