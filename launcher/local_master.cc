#include "launcher/local_master.h"

#include <utility>
#include <variant>

#include "launcher/job_run.h"
#include "proto/base/clock.h"

namespace muster {

LocalMaster::LocalMaster(uv_loop_t* loop, RoundConfig config,
                         std::function<void(const std::string&)> tell)
    : config_(std::move(config)),
      tell_(std::move(tell)),
      timer_(loop, [this] { Post(TimePassed{}); }) {
  timer_.Unref();
}

void LocalMaster::Start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  Post(TimePassed{});
  callbacks_.on_up();
}

void LocalMaster::Send(AgentMessage message) {
  if (auto* join = std::get_if<Join>(&message)) {
    return Post(JoinReceived{ReplyId{1}, std::move(*join)});
  }
  if (auto* beat = std::get_if<Beat>(&message)) {
    return Post(BeatReceived{std::move(*beat)});
  }
  Post(LeaveReceived{std::get<Leave>(std::move(message))});
}

void LocalMaster::Stop(std::function<void()> done) { done(); }

// An effect may bring the agent's answer at once: it waits for its turn.
void LocalMaster::Post(RoundEvent event) {
  events_.push_back(std::move(event));
  if (stepping_) {
    return;
  }
  stepping_ = true;
  while (!events_.empty()) {
    const RoundEvent next = std::move(events_.front());
    events_.pop_front();
    for (const RoundEffect& effect : Step(config_, state_, next, BootNow())) {
      Execute(effect);
    }
  }
  stepping_ = false;
}

void LocalMaster::Execute(const RoundEffect& effect) {
  if (const auto* reply = std::get_if<Reply>(&effect)) {
    callbacks_.on_message(reply->message);
  } else if (const auto* send = std::get_if<struct Send>(&effect)) {
    callbacks_.on_message(send->directive);
  } else if (const auto* tell = std::get_if<Tell>(&effect)) {
    tell_(tell->text);
  } else if (const auto* arm = std::get_if<ArmTimer>(&effect)) {
    timer_.StartAt(arm->at);
  } else if (const auto* round = std::get_if<RoundStarted>(&effect)) {
    LogRound(*round);
  } else if (const auto* all = std::get_if<WorkersStarted>(&effect)) {
    on_workers_started(*all);
  } else if (const auto* answered = std::get_if<OrderAnswered>(&effect)) {
    on_order_answered(*answered);
  }
}

}  // namespace muster
