// Process groups that descendants of workers have made (setsid, setpgid, a shell's jobs): the
// kernel kills those that are known here when this process ends, also by SIGKILL, and with the
// whole agent and its reaper, when nobody is left to look for them. Single thread.
//
// As for workers, by the end of a pipe (life_pipe.h). Here all ends are this process's; so that the
// writer goes first, whichever way the kernel closes what an ended process had open, each group has
// two: of the workers' own pipe, whose writer is below them all, and of one whose writer is above.
// What is not known yet survives that: a group that is younger than about 0.2 s (core/look_pace.h
// says when to look).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>

#include "absl/time/time.h"
#include "agent/core/look_pace.h"
#include "agent/io/life_pipe.h"
#include "proto/base/unique_fd.h"

namespace muster {

class StrayGroups {
 public:
  static constexpr size_t kGroupsMax = 128;

  // `low`: opened before all ends of it, and before the first Keep; outlives this.
  explicit StrayGroups(const LifePipe& low) : low_(low) {}

  // A worker has been started.
  void Begin(absl::Time now);
  // When to call Look; InfiniteFuture: not before Begin.
  absl::Time next() const { return pace_.next(); }
  // Looks, if it is time. The groups of `workers`, by their leaders, have lives already. It costs a
  // file of /proc for each thread below this process.
  void Look(absl::Time now, const std::map<pid_t, int32_t>& workers);
  // Nothing is left below this process.
  void End();

  // Without the look.
  void Keep(const std::set<pid_t>& groups);
  size_t size() const { return ends_.size(); }

 private:
  struct Ends {
    UniqueFd low;   // of low_
    UniqueFd high;  // of high_
  };

  LookPace pace_;
  UniqueFd load_;  // of the system, in which its newest process stands
  const LifePipe& low_;
  LifePipe high_;  // opened with the first group
  std::map<pid_t, Ends> ends_;
};

}  // namespace muster
