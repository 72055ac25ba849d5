// What the workers of this node use: looks at their threads, seldom, and at how many steps they
// have counted; a look that takes long makes the next one come later. Loop thread only.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "agent/core/idle_clock.h"
#include "agent/core/thread_tally.h"
#include "agent/io/shepherd_protocol.h"
#include "agent/io/worker_meeting.h"
#include "proto/base/messages.h"
#include "proto/wire/uv_handles.h"

namespace muster {

// The file that says how long processes have waited for a CPU: those of the cgroup that we are in,
// else of the machine. `root` in front of /proc and /sys; tests only.
std::string PressureFile(const std::string& root = "");

class UseWatch {
 public:
  struct Sources {
    std::function<pid_t()> shepherd;    // all below it is the workers'
    std::function<StepCount()> steps;   // what the SDK has counted so far
    std::function<uint64_t()> written;  // bytes that came from workers so far
  };
  // `cpus`: that they may use. `on_look`: there is something new to tell.
  UseWatch(uv_loop_t* loop, uint32_t cpus, Sources sources,
           std::function<void(const NodeUse&)> on_look);

  // A round begins.
  void Begin(uint32_t workers);
  void WorkerStarted(LocalRank local, pid_t pid);
  void WorkerEnded(pid_t pid, const EndTimes& times);
  // Before the workers are stopped.
  void LookBeforeEnd();
  // The round is over.
  void End() { timer_.Stop(); }

 private:
  void Look();
  void LookAgain();
  void Tell();
  void SeeWaits();
  absl::Duration Pressure() const;

  const Sources sources_;
  const std::function<void(const NodeUse&)> on_look_;
  const std::string pressure_file_;
  ThreadTally tally_;
  IdleClock idle_;
  NodeUse use_;
  std::map<uint32_t, pid_t> living_;           // workers, by local rank
  absl::Time begun_ = absl::InfiniteFuture();  // the first round
  absl::Time looked_;                          // last, or the round began
  absl::Duration pressed_before_;
  absl::Duration wait_;  // until the next look
  UvTimer timer_;
};

}  // namespace muster
