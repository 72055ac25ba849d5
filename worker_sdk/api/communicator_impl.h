// What is behind a Communicator.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "muster/communicator.h"
#include "worker_sdk/algorithm/agreement.h"
#include "worker_sdk/algorithm/split.h"
#include "worker_sdk/api/calls.h"
#include "worker_sdk/api/link_source.h"
#include "worker_sdk/api/meeting.h"
#include "worker_sdk/base/forks.h"
#include "worker_sdk/base/no_memory.h"
#include "worker_sdk/base/tally.h"
#include "worker_sdk/bootstrap/environment.h"
#include "worker_sdk/bootstrap/link.h"
#include "worker_sdk/executor/call_queue.h"
#include "worker_sdk/executor/executor.h"
#include "worker_sdk/transport/direct_read.h"
#include "worker_sdk/transport/messages.h"

namespace muster {

// What is known of a communicator before its ranks meet.
struct Settled {
  std::chrono::nanoseconds timeout{0};
  Wire wire = Wire::kFull;
  bool is_group = false;
};

// While a collective begins, and while one blocks. Those of two threads would be mixed up.
class OneCall {
 public:
  explicit OneCall(std::atomic<bool>& busy)
      : busy_(busy), is_alone_(!busy.exchange(true, std::memory_order_acquire)) {}
  ~OneCall() {
    if (is_alone_) {
      busy_.store(false, std::memory_order_release);
    }
  }
  OneCall(const OneCall&) = delete;
  OneCall& operator=(const OneCall&) = delete;
  bool is_alone() const { return is_alone_; }

 private:
  std::atomic<bool>& busy_;
  const bool is_alone_;
};

class Communicator::Impl {
 public:
  // All ranks of the job: in the round of `job`, which becomes the one that this is in; `survivor`:
  // in one that follows. Where a rank dies meanwhile, again in the round that follows then.
  static StatusOr<std::unique_ptr<Impl>> Come(WorkerIdentity& job, const Settled& settled,
                                              const std::optional<Standing>& survivor);
  // `job`: as the agent knows this process; `me`: in this communicator.
  Impl(const WorkerIdentity& job, const WorkerIdentity& me, Meeting meeting,
       const Settled& settled);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // The first calls of all ranks: they agree on what schedules depend on, and on where they stand.
  Status Meet(const Standing& mine);

  // This is a child of the process that made it.
  bool is_parents() const { return Forks() != forks_; }
  // std::uncaught_exceptions() when this was made: a program may use one while it cleans up.
  int uncaught() const { return uncaught_; }
  // Nothing, or why a call cannot begin. `wrong`: with its arguments.
  Status WhyNot(const Status& wrong) const;
  WorkerIdentity& job() { return job_; }
  const WorkerIdentity& me() const { return me_; }
  bool is_group() const { return is_group_; }

  std::chrono::nanoseconds timeout() const { return timeout_; }
  Wire wire() const { return wire_; }
  void SetWire(Wire wire) { wire_ = wire; }
  // With its arguments checked.
  Calls calls() const { return {static_cast<int>(me_.rank), static_cast<int>(me_.size), wire_}; }
  void SetTimeout(std::chrono::nanoseconds timeout) { timeout_ = Sane(timeout); }
  // What `call` returns; where it finds no memory, that it has, and this communicator is dead.
  template <typename Function>
  auto OrDie(const Function& call) -> decltype(call()) {
    return WithMemory(call, [this] { return decltype(call())(DieOfNoMemory()); });
  }
  // The call that `make` makes of calls(), here and below.
  template <typename Make>
  Status Run(const Make& make) {
    return OrDie([&] { return RunOne(make(calls())); });
  }
  // One call, of several parts.
  Status RunAll(const std::vector<Collective>& parts);
  template <typename Make>
  Work Start(const Make& make) {
    return OrDie([&] { return StartOne(make(calls())); });
  }
  void TellFailing() { source_.TellFailing(); }
  // These two, and last_call(), wait for no call: whoever asks may want to know why one waits.
  Counters counters() const { return executor_.counters(); }
  std::chrono::nanoseconds WaitedFor(uint32_t rank) const { return executor_.WaitedFor(rank); }
  template <typename Make>
  Status Send(const Make& make) {
    return OrDie([&] { return SendOne(make(calls())); });
  }
  template <typename Make>
  Work StartSend(const Make& make) {
    return OrDie([&] { return StartSendOf(make(calls())); });
  }
  template <typename Make>
  Status Receive(const Make& make) {
    return OrDie([&] { return ReceiveOne(make(calls())); });
  }
  template <typename Make>
  Work StartReceive(const Make& make) {
    return OrDie([&] { return StartReceiveOf(make(calls())); });
  }
  // Where this rank's group has met; nullopt: it wants none.
  StatusOr<std::optional<Meeting>> Split(const SplitWish& wish);

  // --- rounds that keep their workers ---
  const Agreed& agreed() const { return agreed_; }
  bool is_replacement() const { return is_replacement_; }
  void Commit(int64_t step) {
    standing_.committed = step;
    standing_.has_state = true;
    executor_.arena().CountStep();
  }
  void HasState() { standing_.has_state = true; }
  uint64_t last_call() const {
    const uint64_t refused = refused_.Get();
    const uint64_t made = made_.Get();
    return made - std::min(made, refused);
  }
  // Nothing goes on here any more; where this rank has come to. `how`: what the others are told,
  // behind its name; `peer`: who they are told made their calls fail, -1: nobody did.
  Standing Leave(const char* how, int peer = -1);

 private:
  // What is added to it shall be a time, too.
  static std::chrono::nanoseconds Sane(std::chrono::nanoseconds timeout) {
    return std::clamp<std::chrono::nanoseconds>(timeout, std::chrono::nanoseconds::zero(),
                                                std::chrono::hours(24 * 365 * 100));
  }
  bool MayBegin(const Status& wrong) const { return wrong.ok() && !is_parents(); }
  // Why a call cannot begin while one of another thread has not ended.
  Status WhyNotAlone() const;
  Status RunOne(const Collective& it) {
    if (!MayBegin(it.wrong)) {
      return WhyNot(it.wrong);
    }
    const OneCall call(busy_);
    if (!call.is_alone()) {
      return WhyNotAlone();
    }
    made_.Add(1);
    return queue_.Run([&] { return RunNow(it, timeout_); });
  }
  Work StartOne(const Collective& it);
  Status SendOne(const OneMessage& it);
  Work StartSendOf(const OneMessage& it);
  Status ReceiveOne(const OneMessage& it);
  Work StartReceiveOf(const OneMessage& it);
  // Waits until a call of another thread, if one is under way, has ended: within 0.1 s of its next
  // wait.
  Status DieOfNoMemory();
  // Of whoever has the executor: as OrDie, and messages go on.
  template <typename Function>
  auto OrEnd(const Function& call) -> decltype(call()) {
    return WithMemory(call, [this] {
      executor_.End(NoMemory());
      return decltype(call())(NoMemory());
    });
  }
  Work Started(const OneMessage& it, TransferPtr transfer);
  Status MeetAll(const Standing& mine);
  Status Told(Status status);
  Status Smallest(std::vector<int64_t>& values);
  StatusOr<DirectReads> MeetDirectly();
  Status MeasureDelay();
  Status RunNow(const Collective& it, std::chrono::nanoseconds timeout);
  Status RunPart(const Collective& it);
  void Settle(const Standing& mine, const Agreed& agreed);
  // A collective call of the program. One that finds the communicator dead does not begin.
  template <typename Function>
  auto Counted(const Function& call) {
    if (executor_.broken()) {
      refused_.Add(1);
    } else {
      ++standing_.started;
    }
    auto result = call();
    if (result.ok()) {
      standing_.completed = standing_.started;
    }
    return result;
  }

  const uint32_t forks_;
  const int uncaught_ = std::uncaught_exceptions();
  WorkerIdentity job_;
  const WorkerIdentity me_;
  const bool is_group_;
  uint64_t splits_ = 0;  // so far, the same on every rank
  Wire wire_;
  Agreed agreed_;
  Standing standing_;
  Tally<uint64_t> made_;     // collective calls of the program, those of earlier rounds included
  Tally<uint64_t> refused_;  // of these, that found the communicator dead
  bool is_replacement_ = false;
  const std::unique_ptr<Link> link_;
  DirectReader direct_;
  Executor executor_;
  std::chrono::nanoseconds timeout_;
  std::atomic<bool> busy_{false};
  LinkSource source_;
  const std::shared_ptr<Messages> messages_;
  CallQueue queue_;  // its thread uses all of the above
};

}  // namespace muster
