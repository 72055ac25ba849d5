// The master of a job on one machine, in the agent's own process: the same round machine, no gRPC,
// no socket. Loop thread only.
#pragma once

#include <uv.h>

#include <deque>
#include <functional>
#include <string>

#include "agent/io/links.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/core/round_machine.h"

namespace muster {

class LocalMaster : public MasterLink {
 public:
  LocalMaster(uv_loop_t* loop, RoundConfig config, std::function<void(const std::string&)> tell);

  void Start(Callbacks callbacks) override;
  void Send(AgentMessage message) override;
  void SendFence(FencePiece) override {}  // a node alone has nobody to tell
  void SendModex(ModexNote) override {}
  void Stop(std::function<void()> done) override;

  std::function<void(const WorkersStarted&)> on_workers_started;  // once a round
  std::function<void(const OrderAnswered&)> on_order_answered;

  void Post(RoundEvent event);
  const JobReport& report() const { return state_.report; }
  const RoundState& state() const { return state_; }

 private:
  void Execute(const RoundEffect& effect);

  const RoundConfig config_;
  const std::function<void(const std::string&)> tell_;
  Callbacks callbacks_;
  RoundState state_;
  std::deque<RoundEvent> events_;
  bool stepping_ = false;
  UvTimer timer_;
};

}  // namespace muster
