// Carries out the steps of a schedule over the arena of a node and the connections with other
// nodes. One call at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/communicator.h"
#include "muster/status.h"
#include "proto/base/unique_fd.h"
#include "worker_sdk/algorithm/layout.h"
#include "worker_sdk/algorithm/schedule.h"
#include "worker_sdk/base/tally.h"
#include "worker_sdk/transport/arena.h"
#include "worker_sdk/transport/direct_read.h"
#include "worker_sdk/transport/peers.h"

namespace muster {

class Executor {
 public:
  // Makes connections with these ranks, each of which asks for one with us, and hands them over as
  // they come; waits for all.
  using Take = std::function<void(uint32_t rank, UniqueFd fd)>;
  using Connect = std::function<Status(const std::vector<uint32_t>& ranks, const Take& take,
                                       const Peers::GiveUp& give_up)>;

  // `layout`: of the whole world; the arena's ranks are one of its nodes.
  Executor(std::unique_ptr<Arena> arena, Layout layout, Connect connect);

  const Layout& layout() const { return layout_; }
  Arena& arena() { return *arena_; }
  // Done between looks while a call waits; false: nothing is left to do.
  void SetBackground(std::function<bool()> work) { background_ = std::move(work); }
  uint32_t rank() const { return rank_; }
  // One line on standard error a minute says for whom we wait; after `timeout` (zero: never) the
  // call ends with DeadlineExceeded, on every rank.
  void SetTimeout(std::chrono::nanoseconds timeout) { timeout_ = timeout; }
  // Ranks of each node that share the traffic of large reductions: at most the smallest node's, the
  // same on every rank.
  void SetCarriers(uint32_t carriers) { group_.carriers = carriers; }
  // Of messages that take this long from node to node, so many chunks of a large reduction are sent
  // ahead; the same on every rank.
  void SetDelay(std::chrono::nanoseconds delay);
  // What every rank of this node says of itself: `bytes` from each, by place. A call of all ranks.
  Status GatherOnNode(const void* in, void* out, uint64_t bytes);
  // From now on, large parts are read straight from the memory of other ranks, where slots are
  // quick only few of them; the same on every rank. It has met them, and outlives this.
  void SetDirect(const DirectReader* reader, bool quick_slots);
  bool broken() const { return !broken_.ok(); }
  // Both: any thread, at once, also while a call is under way.
  Counters counters() const;
  std::chrono::nanoseconds WaitedFor(uint32_t rank) const;
  // Calls from now on are parts of something that has a name of its own, as errors say it; nullptr:
  // they are the program's.
  void SetPartOf(const char* whole) { part_of_ = whole; }
  // Every error but InvalidArgument is for good: each later call returns it again.
  Status Run(const Call& call, const void* in, void* out);
  // Ends it for `why`, as a call that fails would: the other ranks are told.
  void End(const Status& why);
  // The same to the call that runs on another thread, if one does: it ends within 0.1 s. Any
  // thread; the first one counts. The next call fails, too.
  void Interrupt(const Status& why);
  // What Interrupt() was told, if it was. Any thread.
  Status interruption() const {
    return interrupted_.load(std::memory_order_acquire) ? interrupt_ : Status();
  }
  // A kAllToAllV of which each rank knows its own numbers only: `call.parts` has the elements for
  // each rank, `expected` those from each. Ranks tell each other in a call of its own before.
  // FailedPrecondition: a rank sends another one more, or less, than that one expects.
  Status RunAllToAllV(const Call& call, const uint64_t* expected, const void* in, void* out);
  // After a Run() of `call`, as a call of its own of all ranks: Internal if its result is the same
  // for all ranks and yet is not. Of other calls: nothing happens.
  Status Check(const Call& call, const void* out);

 private:
  template <typename Steps>
  Status RunAs(const CallMark& mark, uint64_t bytes, const Steps& steps);
  Status CompareColumn(const std::vector<uint64_t>& sent, const uint64_t* expected) const;
  Status RunSteps(const Group& group, const Call& call, const void* in, void* out);
  Status RunStep(const Step& step, const Call& call, const uint8_t* in, uint8_t* out);
  Status Break(Status why);
  void TellAll(const Status& why);
  Status Prepare();
  bool AllHaveTold();
  Status EndLast();
  Status Wait(const Step& step);
  Status CheckCall(uint32_t place);
  Status Disagree(uint32_t rank, const std::string& theirs) const;
  Status GiveUp(uint32_t rank);
  std::chrono::nanoseconds WaitedSoFar();
  std::chrono::nanoseconds NapFor(uint32_t rank);
  std::string ThisCall() const;  // "all_reduce (call 3)"
  bool IsInCall(uint32_t rank) const;
  std::chrono::nanoseconds PatienceWith(uint32_t rank) const;
  const uint8_t* Source(const Ref& ref, const uint8_t* in, const uint8_t* out);
  uint8_t* Target(const Ref& ref, uint8_t* out);
  void ReducePlaces(const Step& step, const Call& call, const uint8_t* in, uint8_t* out);
  void ReduceNodes(const Step& step, const Call& call, const uint8_t* in, uint8_t* out);
  void ReducePair(const Step& step, const Call& call, const uint8_t* in, uint8_t* out);
  Status Copy(const Step& step, const uint8_t* in, uint8_t* out);
  Status ReadDirectly(uint8_t* to, const Ref& ref, uint64_t bytes);
  void Tell(const uint8_t* where);
  void TellApart(const Step& step, const Call& call, const uint8_t* in, uint8_t* out);
  uint64_t ToldBy(uint32_t place);
  void Reduce(const Step& step, const Call& call, uint8_t* dst, const void* const* srcs,
              uint32_t n);

  struct alignas(64) CacheLine {
    uint8_t bytes[64];
  };
  // Of all lines, which are one piece of memory.
  static uint8_t* BytesOf(std::vector<CacheLine>& lines) {
    return reinterpret_cast<uint8_t*>(lines.data());
  }

  const std::unique_ptr<Arena> arena_;
  const Layout layout_;
  const Connect connect_;
  Group group_;
  const uint32_t rank_;
  Peers peers_;
  const Peers::GiveUp give_up_;
  std::function<bool()> background_;
  const DirectReader* direct_ = nullptr;
  std::chrono::nanoseconds timeout_{0};

  Tally<uint64_t> calls_;  // that succeeded
  Tally<uint64_t> bytes_;  // of them
  uint64_t number_ = 0;    // of the call that runs, or ran last
  const char* part_of_ = nullptr;
  CallMark mark_;             // of that call
  uint64_t first_phase_ = 0;  // of that call
  bool checked_ = true;       // the others make the same call, as far as we wait for them
  std::optional<std::chrono::steady_clock::time_point> waiting_since_;
  std::chrono::minutes told_{0};
  Status broken_;
  std::atomic<bool> interrupts_{false};  // somebody does
  std::atomic<bool> interrupted_{false};
  Status interrupt_;  // from then on
  std::vector<Step> steps_;
  std::vector<CacheLine> scratch_ = std::vector<CacheLine>(1);  // never empty
  std::vector<CacheLine> narrow_ = std::vector<CacheLine>(1);   // never empty
  std::vector<const void*> sources_;
  std::vector<uint32_t> ranks_of_nodes_;
};

}  // namespace muster
