// How long the threads of a node have run, and waited for a CPU, over all of them that ever were.
// The kernel says it of a thread that lives: what one does between the last look at it and its end
// is not known. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

struct ThreadTimes {
  absl::Duration ran;     // on a CPU, since it began
  absl::Duration waited;  // for one, though ready to run
};

// /proc/PID/task/TID/schedstat: "nanoseconds nanoseconds slices". Zero for any other text.
ThreadTimes ParseSchedstat(absl::string_view text);

class ThreadTally {
 public:
  // TakeLast will follow for this one: until then it is not taken for another one of its number.
  void Await(int32_t thread) { awaited_.insert(thread); }
  // All that live, by their numbers: others that were there before have ended. Not `whole`: some
  // were not looked at, so that none is known to have ended.
  void Take(std::map<int32_t, ThreadTimes> living, bool whole = true);
  // The last that is to be had of this one.
  void TakeLast(int32_t thread, const ThreadTimes& times);

  const ThreadTimes& sum() const { return sum_; }

 private:
  void Add(int32_t thread, const ThreadTimes& times);

  std::set<int32_t> awaited_;
  std::map<int32_t, ThreadTimes> seen_;  // that lived at the last look, or may live
  ThreadTimes sum_;
};

// "some avg10=... total=MICROSECONDS" of /proc/pressure/cpu or a cgroup's cpu.pressure: how long
// any process has waited for a CPU. Zero for any other text.
absl::Duration ParsePressure(absl::string_view text);

}  // namespace muster
