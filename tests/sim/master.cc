// The host of the round machine: timers, connections, requests of the user.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/numbers.h"
#include "tests/sim/world.h"

namespace muster::sim {

void World::StepMaster(const RoundEvent& event) {
  const std::vector<RoundEffect> effects = Step(config_, master_, event, ToTime(now_));
  // A whole check is O(N): in big worlds now and then, and whenever something else than an answer
  // came of the event.
  const bool whole = options_.agents <= 256 || effects.size() > 4 ||
                     ++master_steps_ % (uint64_t{8} * options_.agents) == 0;
  FailIf(checker_->Check(master_, effects, whole));
  CheckProgress();
  if (master_.phase == JobPhase::kStopping && master_.stop_reason == StopReason::kGrowth &&
      grown_last_ != master_.round) {
    grown_last_ = master_.round;
    ++grown_;
  }
  for (const RoundEffect& effect : effects) {
    std::visit([this](const auto& one) { Do(one); }, effect);
  }
}

void World::Do(const Reply& effect) {
  Connection& c = connections_[effect.to.value - 1];
  if (const auto* admitted = std::get_if<Admitted>(&effect.message)) {
    c.node = admitted->node;
    c.incarnation = admitted->incarnation;
    connection_of_.resize(std::max<size_t>(connection_of_.size(), c.node.value + 1));
    connection_of_[c.node.value] = effect.to.value;
    Mix(admitted->incarnation.value);
  }
  if (c.open) {
    SendToAgent(effect.to.value, effect.message);
  }
}

void World::Do(const Send& effect) {
  const uint64_t number = ConnectionOf(effect.node);
  if (number == 0) {
    return;
  }
  const Connection& c = connections_[number - 1];
  if (c.open && c.incarnation == effect.incarnation) {
    Mix(effect.directive.round.Token() ^ static_cast<uint64_t>(effect.directive.wanted));
    SendToAgent(number, effect.directive);
  }
}

void World::Do(const Tell& effect) {
  if (options_.trace != nullptr) {
    options_.trace(effect.text);
  }
  for (const char c : effect.text) {
    Mix(static_cast<uint64_t>(c));
  }
}

void World::Do(const ArmTimer& effect) {
  ++master_timer_;
  if (effect.at != absl::InfiniteFuture()) {
    const Nanos at = std::max(ToNanos(effect.at), now_);
    queue_.Push({at, 0, master_timer_, 0, 0, Kind::kMasterTimer});
  }
}

void World::Do(const DropLink& effect) {
  const uint64_t number = ConnectionOf(effect.node);
  if (number == 0) {
    return;
  }
  Connection& c = connections_[number - 1];
  if (c.open && c.incarnation == effect.incarnation) {
    c.open = false;
    Close(number, /*agent_sees=*/true, /*master_sees=*/false);
  }
}

void World::Do(const RoundStarted& effect) {
  ++rounds_;
  signals_asked_ = 0;
  Mix(effect.round.Token());
  CheckOrder();
}

void World::Do(const WorkersStarted& effect) { Mix(effect.round.Token()); }

// A host that is frozen is not reached; at others it may fail for any reason.
void World::Do(const StartAgain& effect) {
  ++came_back_;
  Mix(effect.attempt);
  uint32_t key = 0;
  (void)absl::SimpleAtoi(effect.key.substr(effect.key.find('/') + 1), &key);
  bool reached = healed_ || !Chance(start_fail_chance_);
  for (const Process& p : processes_) {
    reached &= p.key != key || !p.alive || p.finished || p.frozen_until <= now_;
  }
  if (reached) {
    return AddProcess(key, now_ + Between(20 * kMilli, kSecond), effect.attempt);
  }
  ++starts_failed_;
  Post(Between(10 * kMilli, 3 * kSecond), Kind::kStartFailed, key, 0, effect.attempt);
}

void World::Do(const SignalHeard& effect) { Mix(effect.node.value); }

void World::Do(const JobEnded&) {
  over_ = now_;
  Heal();
  if (stays_) {
    return;
  }
  serving_ = false;
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].open) {
      connections_[i].open = false;
      Close(i + 1, /*agent_sees=*/true, /*master_sees=*/false);
    }
  }
}

void World::MasterClosed(uint64_t connection) {
  Connection& c = connections_[connection - 1];
  if (!c.open) {
    return;
  }
  c.open = false;
  // Only the connection that the node has now says something about the node.
  if (c.node != NodeId() && ConnectionOf(c.node) == connection) {
    StepMaster(LinkClosed{c.node, c.incarnation});
  }
}

void World::MasterAsked(uint64_t request) {
  switch (request) {
    case 0:
      signals_asked_ += master_.phase == JobPhase::kRunning ? 1 : 0;
      return StepMaster(SignalAsked{SIGUSR1});
    case 1:
      return StepMaster(PauseAsked{true});
    case 2:
      return StepMaster(PauseAsked{false});
    default:
      user_stop_ = SIGINT;
      return StepMaster(StopAsked{SIGINT, request == 4});
  }
}

}  // namespace muster::sim
