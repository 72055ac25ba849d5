// The memory that the ranks of a node share in one round (proto/base/worker_link.h), and how they
// wait for each other in it. One thread of each rank.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/status.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "worker_sdk/base/tally.h"
#include "worker_sdk/transport/held_socket.h"
#include "worker_sdk/transport/rank_name.h"
#include "worker_sdk/transport/wait_policy.h"

namespace muster {

class Arena {
 public:
  // Maps it. Errors: Internal (what the agent handed out is not an arena of this geometry).
  // `place`: ours among the ranks of this node, which `rank_of` names.
  static StatusOr<std::unique_ptr<Arena>> Map(const UniqueFd& memory, ArenaGeometry geometry,
                                              uint32_t place, std::vector<uint32_t> rank_of,
                                              WaitPolicy policy);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const ArenaGeometry& geometry() const { return geometry_; }
  uint32_t place() const { return place_; }  // ours, among the ranks of this node
  uint32_t RankOf(uint32_t place) const { return rank_of_[place]; }  // in the communicator
  const WaitPolicy& policy() const { return policy_; }
  uint64_t phase() const { return phase_; }
  // Of the phase we are in (what others published), and of the next one (what we may write).
  uint8_t* SlotNow(uint32_t place) { return Slot(place, phase_); }
  uint8_t* SlotNext(uint32_t place) { return Slot(place, phase_ + 1); }
  uint8_t* NearNow(uint32_t place) { return Near(place, phase_); }
  uint8_t* NearNext(uint32_t place) { return Near(place, phase_ + 1); }
  uint8_t* ResultNow() { return Result(phase_); }
  uint8_t* ResultNext() { return Result(phase_ + 1); }

  void SetNames(RankName name) { name_ = std::move(name); }
  // Done before we look, once in a while, which ranks are gone.
  void SetWatch(std::function<void()> watch) { watch_ = std::move(watch); }
  void Watch() const {
    if (watch_) {
      watch_();
    }
  }
  // Done between looks while we wait for a rank; false: nothing is left to do, look rarely.
  void SetWork(std::function<bool()> work) { work_ = std::move(work); }

  // How long we may sleep before `give_up` is asked: longer than 50 ms is never slept.
  void SetNap(std::function<std::chrono::nanoseconds(uint32_t rank)> nap) { nap_ = std::move(nap); }

  // Our call of this number; others see it with the next phase. Once all have published the last
  // phase of the call before, nobody reads the mark any more that is overwritten.
  void Announce(uint64_t number, const CallMark& call) {
    announced_ = number;
    call_ = call;
  }
  // Of a rank that has published a phase of that call.
  const CallMark& CallOf(uint32_t place, uint64_t number) { return Line(place).call[number & 1]; }

  void Publish();
  // Until the rank at `place` has published the phase we are in. `give_up` is asked every 50 ms or
  // so, or as SetNap() says, with the rank that we wait for, while we wait; with any other answer
  // than OK the wait ends with it. It also ends with Unavailable when that rank is gone, and with
  // the arena's failure.
  Status WaitFor(uint32_t place, const std::function<Status(uint32_t rank)>& give_up);
  Status WaitForAll(const std::function<Status(uint32_t rank)>& give_up);

  bool HasPublished(uint32_t place, uint64_t phase) const {
    return std::atomic_ref(Line(place).phase).load(std::memory_order_acquire) >= phase;
  }

  static void Pause();  // between two looks at memory

  // Whether the rank at `place` will publish nothing more, and send nothing more.
  LineEnd EndOf(uint32_t place) const {
    return static_cast<LineEnd>(std::atomic_ref(Line(place).gone).load(std::memory_order_acquire));
  }
  // Tells the rank at `place` that there is something new in a pipe of its. Whoever calls it has
  // written there before, in the one order of seq_cst.
  void Ring(uint32_t place);
  // Until someone rings for us, for at most `nap`. `look`: whether there is something new already;
  // it is asked when nobody's ring can be missed any more.
  void SleepUntilRing(std::chrono::nanoseconds nap, const std::function<bool()>& look);
  // Whether the rank at `place` waited last on the core that we are on: if we spin, it cannot run.
  // Of a rank that is about to wait; any thread.
  bool SharesCore(uint32_t place) const;
  // We are in a long wait, and look around now and then: others see that we do not stand still.
  void NoteLook();
  // Whether the rank at `place` has done so in the last 0.3 s: it waits for somebody, and is alive.
  bool Looks(uint32_t place) const;
  // A step of the program is whole: the agent looks now and then how many there are.
  void CountStep();
  // For the rank at `place`, in waits that took more than a spin; one that goes on counts as far as
  // it has come, give or take 50 ms. Any thread.
  std::chrono::nanoseconds waited(uint32_t place) const { return waited_[place].Get(); }

  // The first failure counts; every rank that waits ends with it.
  void Fail(const Status& why);
  Status failure() const;  // OK: none; else also the round's end
  // Whether what has just been read from another rank's memory counts: who gives up says so before
  // its memory may be something else. Not OK: why it does not.
  Status ReadCounts() const;
  // Unavailable: the round is over, says the agent, and with it all that its ranks share.
  Status over() const;
  // Of what goes to other nodes and comes from there; any thread.
  LinkHold hold() const { return LinkHold(&header()); }

 private:
  Arena(uint8_t* memory, ArenaGeometry geometry, uint32_t place, std::vector<uint32_t> rank_of,
        WaitPolicy policy)
      : memory_(memory),
        geometry_(geometry),
        place_(place),
        rank_of_(std::move(rank_of)),
        policy_(policy),
        waited_(geometry.local_size) {}

  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(memory_); }
  ArenaLine& Line(uint32_t place) const {
    return *reinterpret_cast<ArenaLine*>(memory_ + geometry_.LinesAt() +
                                         place * ArenaGeometry::kLineBytes);
  }
  ArenaBell& Bell(uint32_t place) const { return *reinterpret_cast<ArenaBell*>(&Line(place) + 1); }
  uint8_t* Slot(uint32_t place, uint64_t phase) const {
    return memory_ + geometry_.SlotsAt() +
           (uint64_t{place} * 2 + (phase & 1)) * geometry_.slot_bytes;
  }
  uint8_t* Near(uint32_t place, uint64_t phase) const {
    return reinterpret_cast<uint8_t*>(&Line(place).near[phase & 1]);
  }
  uint8_t* Result(uint64_t phase) const {
    return memory_ + geometry_.ResultsAt() + (phase & 1) * geometry_.result_bytes;
  }
  bool Reached(uint32_t place) const { return HasPublished(place, phase_); }
  Status WaitLong(uint32_t place, const std::function<Status(uint32_t rank)>& give_up);
  Status WaitSince(std::chrono::steady_clock::time_point begin,
                   std::chrono::steady_clock::time_point& counted, uint32_t place,
                   const std::function<Status(uint32_t rank)>& give_up);
  Status LookAround(uint32_t place, const std::function<Status(uint32_t rank)>& give_up) const;
  Status Gone(uint32_t place) const;
  void Sleep(uint32_t place, std::chrono::nanoseconds nap);

  uint8_t* const memory_;  // ours until the destructor unmaps it
  const ArenaGeometry geometry_;
  const uint32_t place_;
  const std::vector<uint32_t> rank_of_;
  const WaitPolicy policy_;
  RankName name_ = PlainRankName;
  uint64_t announced_ = 0;  // `call_` is of this number
  CallMark call_;
  std::vector<Tally<std::chrono::nanoseconds>> waited_;  // by place
  std::function<bool()> work_;
  std::function<void()> watch_;
  uint64_t phase_ = 0;
  uint64_t all_reached_ = 0;  // all have published this phase, as we have seen
  std::function<std::chrono::nanoseconds(uint32_t rank)> nap_;
};

}  // namespace muster
