#include "rendezvous/service/job.h"

#include <utility>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/wire/secret.h"
#include "rendezvous/core/latecomer.h"

namespace muster {

Job::Job(uv_loop_t* loop, RoundConfig config, std::function<void(RoundEffect)> execute)
    : config_(std::move(config)),
      execute_(std::move(execute)),
      timer_(loop, [this] { Feed(TimePassed{}); }) {
  // Lives are numbered from a random start, so that a beat of an agent of an earlier master or job
  // with this name never looks like one of ours.
  const absl::StatusOr<std::string> nonce = MakeNonce();
  CHECK(nonce.ok());
  for (size_t i = 0; i < 6; ++i) {
    state_.incarnations = (state_.incarnations << 8) | static_cast<unsigned char>((*nonce)[i]);
  }
}

Job::Job(uv_loop_t* loop, RoundConfig config, RoundState state,
         std::function<void(RoundEffect)> execute)
    : Job(loop, std::move(config), std::move(execute)) {
  state_ = std::move(state);
  ended_ = state_.phase == JobPhase::kEnded;
}

void Job::Feed(RoundEvent event) {
  events_.push_back(std::move(event));
  Run();
}

void Job::Durable() {
  ++durable_;
  Run();
}

void Job::Run() {
  if (busy_) {
    return;  // an effect's callback came back: after the effects at hand
  }
  busy_ = true;
  while (true) {
    const bool persist = !effects_.empty() && std::holds_alternative<Persist>(effects_.front());
    if (!effects_.empty() && (!persist || durable_ > 0)) {
      RoundEffect effect = std::move(effects_.front());
      effects_.pop_front();
      durable_ -= persist ? 1 : 0;
      ended_ = ended_ || std::holds_alternative<JobEnded>(effect);
      if (!persist) {
        execute_(std::move(effect));
      }
      continue;
    }
    if (events_.empty()) {
      break;
    }
    const RoundEvent next = std::move(events_.front());
    events_.pop_front();
    for (RoundEffect& effect : Step(config_, state_, next, BootNow())) {
      if (const auto* arm = std::get_if<ArmTimer>(&effect)) {
        timer_.StartAt(arm->at);
        continue;
      }
      if (auto* record = std::get_if<Persist>(&effect)) {
        execute_(std::exchange(*record, Persist()));
      }
      effects_.push_back(std::move(effect));
    }
  }
  busy_ = false;
}

bool Job::KnowsLife(uint64_t life) const { return state_.by_life.count(life) != 0; }

bool Job::ComesTooLate(const Join& join) const {
  return ended_ && muster::ComesTooLate(config_, state_, join);
}

bool Job::IsEnding() const { return !ended_ && OnlyEnds(state_); }

bool Job::Holds(NodeId node, Incarnation incarnation) const {
  const auto it = state_.nodes.find(node);
  return it != state_.nodes.end() && it->second.incarnation == incarnation;
}

}  // namespace muster
