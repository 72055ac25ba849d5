// The simulator's virtual time: events in order of time, and of posting within one instant.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <utility>
#include <vector>

namespace muster::sim {

using Nanos = int64_t;  // virtual time since the start
inline constexpr Nanos kMilli = 1'000'000;
inline constexpr Nanos kSecond = 1'000 * kMilli;

enum class Kind : uint8_t {
  kStart,        // process `who` comes to life
  kConnect,      // the link of `who` tries to reach the master
  kLinkUp,       // `who`: connection `number` stands
  kLinkDown,     // `who`: connection `number` is gone
  kToAgent,      // `who`: message in slot `slot`, over connection `number`
  kAgentTimer,   // `who`: valid if `number` is its present one
  kStorePort,    // `who`: the port is open
  kNoStorePort,  // `who`: it cannot be opened
  kRestShown,    // `who`: what its workers wrote has been read
  kExitSeen,     // `who`: its shepherd reports the exit in slot `slot`
  kGroupsEnded,  // `who`: what was told to stop with the workers of round `number` has ended
  kCleared,      // `who`: nothing of round `number` is left
  kSeek,         // `who`: a worker of round `number` needs the node rank `slot`
  kAgentStop,   // `who`: the user typed Ctrl-C there; `number` 1: at once, 2: only that node leaves
  kLeaseEnd,    // shepherd of `who`: valid if `number` is its present one
  kLeaseEnded,  // `who`: its shepherd says that it has killed as the lease was over
  kWorkerEnd,   // worker `slot` of `who` ends, if its turn is still `number`
  kToMaster,    // message in slot `slot`, over connection `number`
  kMasterTimer,   // valid if `number` is the present one
  kMasterClosed,  // the master sees connection `number` end
  kStartFailed,   // the starter of place `who` gives up attempt `number`; `slot` 1: it was killed
  kMasterAsked,   // the user asks the master: the next of World::asks_
  kPersisted,     // the journal of master life `number` has its next record
  kMasterBack,    // the next master takes over
  kFault,         // fault `number` of the script
  kHeal,          // no more faults (the last one: names in Trace)
};

struct Event {
  Nanos at = 0;
  uint64_t order = 0;
  uint64_t number = 0;
  uint32_t who = 0;
  uint32_t slot = 0;
  Kind kind = Kind::kStart;
};

// By time; what is far away waits unordered, a bucket for each span of time, which a heap of all
// events would look at again and again.
class EventQueue {
 public:
  void Push(Event event) {
    event.order = ++order_;
    if (event.at < near_until_) {
      near_.push(event);
    } else {
      far_[event.at / kSpan].push_back(event);
    }
  }
  bool Empty() const { return near_.empty() && far_.empty(); }
  Event Pop() {
    if (near_.empty()) {
      const auto first = far_.begin();
      near_until_ = (first->first + 1) * kSpan;
      near_ = Heap(Later(), std::move(first->second));
      far_.erase(first);
    }
    const Event event = near_.top();
    near_.pop();
    return event;
  }

 private:
  static constexpr Nanos kSpan = 5 * kMilli;
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  using Heap = std::priority_queue<Event, std::vector<Event>, Later>;
  Heap near_;
  Nanos near_until_ = 0;
  std::map<Nanos, std::vector<Event>> far_;  // by the number of its span; none is empty
  uint64_t order_ = 0;
};

// Values that wait in the queue, by slot; slots are used again.
template <typename T>
class Slots {
 public:
  uint32_t Put(T value) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      return static_cast<uint32_t>(values_.size() - 1);
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    values_[slot] = std::move(value);
    return slot;
  }
  T Take(uint32_t slot) {
    free_.push_back(slot);
    return std::move(values_[slot]);
  }

 private:
  std::vector<T> values_;
  std::vector<uint32_t> free_;
};

}  // namespace muster::sim
