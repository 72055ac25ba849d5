// --report-bindings: shows where the workers of this node run, what the kernel says of it when they
// have started, and a few times later, when libraries have made their threads. Loop thread only.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/core/bindings_report.h"
#include "agent/io/worker_placement.h"
#include "proto/wire/uv_handles.h"

namespace muster {

// Of all threads of a process; none where it is gone. `root` in front of /proc; tests only.
std::vector<ThreadCpus> ReadThreads(pid_t pid, const std::string& root = "");

class BindingsWatch {
 public:
  BindingsWatch(uv_loop_t* loop, std::string host);

  // All of a round have started: `ranks` and `pids` by local rank.
  void Begin(const WorkerPlacement& placement, std::vector<uint32_t> ranks,
             const std::vector<pid_t>& pids);
  // This worker of the round has ended: its process id may be another's by now.
  void WorkerEnded(uint32_t local_rank);
  // The round is over.
  void End() { timer_.Stop(); }

 private:
  struct Watched {
    uint32_t rank;
    pid_t pid;
    CpuSet planned;
    bool done = false;  // it has ended, or was said to have threads elsewhere
  };
  void LookAgain();

  const std::string host_;
  std::vector<Watched> workers_;
  absl::Duration wait_;
  UvTimer timer_;
};

}  // namespace muster
