#include "agent/io/held_link.h"

#include <algorithm>
#include <utility>

#include "proto/base/clock.h"

namespace muster {
namespace {

// Beats and their answers of a quarter of an hour; older ones say nothing that these do not.
constexpr size_t kHeldMax = 2048;

}  // namespace

HeldLink::HeldLink(uv_loop_t* loop, MasterLink* link)
    : link_(link), timer_(loop, [this] { Release(); }) {
  timer_.Unref();
}

void HeldLink::Start(Callbacks callbacks) {
  callbacks_ = callbacks;
  callbacks.on_message = [this](const MasterMessage& message) {
    Deliver([this, message] { callbacks_.on_message(message); });
  };
  callbacks.on_fence = [this](FencePiece piece) {
    Deliver([this, piece = std::move(piece)] { callbacks_.on_fence(piece); });
  };
  callbacks.on_modex = [this](ModexNote note) {
    Deliver([this, note = std::move(note)] { callbacks_.on_modex(note); });
  };
  link_->Start(std::move(callbacks));
}

void HeldLink::Send(AgentMessage message) {
  Deliver([this, message = std::move(message)] { link_->Send(message); });
}

void HeldLink::SendFence(FencePiece piece) {
  Deliver([this, piece = std::move(piece)] { link_->SendFence(piece); });
}

void HeldLink::SendModex(ModexNote note) {
  Deliver([this, note = std::move(note)] { link_->SendModex(note); });
}

void HeldLink::Stop(std::function<void()> done) {
  held_.clear();
  timer_.Stop();
  link_->Stop(std::move(done));
}

void HeldLink::Hold(absl::Duration delay, absl::Duration length) {
  delay_ = delay;
  over_ = BootNow() + length;
}

void HeldLink::Deliver(std::function<void()> deliver) {
  const absl::Time now = BootNow();
  if (held_.empty() && now >= over_) {
    return deliver();
  }
  if (held_.size() == kHeldMax) {
    held_.pop_front();
  }
  const absl::Time until = std::min(now + delay_, std::max(now, over_));
  // Behind those that came before it.
  held_.push_back(
      {held_.empty() ? until : std::max(until, held_.back().until), std::move(deliver)});
  timer_.StartAt(held_.front().until);
}

void HeldLink::Release() {
  while (!held_.empty() && BootNow() >= held_.front().until) {
    const std::function<void()> deliver = std::move(held_.front().deliver);
    held_.pop_front();
    deliver();  // which may hold up others, or stop the link
  }
  if (!held_.empty()) {
    timer_.StartAt(held_.front().until);
  }
}

}  // namespace muster
