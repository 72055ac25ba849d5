// Carries out the steps of a schedule over the arena of a node. One call at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/status.h"
#include "worker_sdk/algorithm/schedule.h"
#include "worker_sdk/transport/arena.h"

namespace muster {

class Executor {
 public:
  explicit Executor(std::unique_ptr<Arena> arena);

  // One line on standard error a minute says for whom we wait; after `timeout` (zero: never) the
  // call ends with DeadlineExceeded, on every rank.
  void SetTimeout(std::chrono::nanoseconds timeout) { timeout_ = timeout; }
  // Every error but InvalidArgument is for good: each later call returns it again.
  Status Run(const Call& call, const void* in, void* out);

 private:
  Status RunSteps(const Call& call, const uint8_t* in, uint8_t* out);
  Status EndLast();
  Status Wait(const Step& step);
  Status CheckCall(uint32_t place);
  Status GiveUp(uint32_t place);
  const uint8_t* Source(const Ref& ref, const uint8_t* in, const uint8_t* out);
  uint8_t* Target(const Ref& ref, uint8_t* out);
  void Reduce(const Step& step, const Call& call, const uint8_t* in, uint8_t* out);
  std::string Describe(const CallMark& mark) const;

  const std::unique_ptr<Arena> arena_;
  const Group group_;
  std::chrono::nanoseconds timeout_{0};

  uint64_t number_ = 0;       // of the call that runs, or ran last
  CallMark mark_;             // of that call
  uint64_t first_phase_ = 0;  // of that call
  bool checked_ = true;       // the others make the same call, as far as we wait for them
  std::optional<std::chrono::steady_clock::time_point> waiting_since_;
  std::chrono::minutes told_{0};
  Status broken_;
  std::vector<Step> steps_;
  std::vector<const void*> sources_;
};

}  // namespace muster
