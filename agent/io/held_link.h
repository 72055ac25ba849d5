// A link to the master on which messages can be held up, both ways: what `launch chaos cut` and
// `slow` do to a node, without any right on its network. They stay in their order; a link that is
// cut has all of them at its end, as TCP would. Loop thread only.
#pragma once

#include <uv.h>

#include <deque>
#include <functional>

#include "absl/time/time.h"
#include "agent/io/links.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class HeldLink : public MasterLink {
 public:
  // `loop` and `link` outlive this.
  HeldLink(uv_loop_t* loop, MasterLink* link);

  void Start(Callbacks callbacks) override;
  void Send(AgentMessage message) override;
  void SendFence(FencePiece piece) override;
  void SendModex(ModexNote note) override;
  void Stop(std::function<void()> done) override;
  bool IsFinal() const override { return link_->IsFinal(); }

  // From now on for so long each message arrives that much later, at the latest when it is over.
  void Hold(absl::Duration delay, absl::Duration length);

 private:
  struct Held {
    absl::Time until;
    std::function<void()> deliver;
  };
  // At once where nothing is held.
  void Deliver(std::function<void()> deliver);
  void Release();

  MasterLink* const link_;
  Callbacks callbacks_;
  absl::Duration delay_;
  absl::Time over_ = absl::InfinitePast();
  std::deque<Held> held_;
  UvTimer timer_;
};

}  // namespace muster
