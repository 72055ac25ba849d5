// Starts one worker from prepared values: vfork, async-signal-safe set-up, exec. Single-threaded
// callers only, which have no signal handlers (ResetSignals): one would run in the child on the
// caller's stack.
#pragma once

#include <sys/types.h>

#include <vector>

#include "agent/core/cpu_count.h"
#include "agent/io/worker_limits.h"
#include "proto/base/cpu_binding.h"
#include "proto/base/worker_link.h"

namespace muster {

// In the worker, which does nothing with it.
inline constexpr int kWorkerLifeFd = kWorkerDoorFd + 1;
static_assert(kWorkerLifeFd != kWorkerPmiFd);

// Where a worker runs from its first instruction on, and all that it starts.
struct SpawnBinding {
  CpuSet cpus;  // empty = as the caller
  MemoryBinding memory = MemoryBinding::kNone;
  CpuSet memory_nodes;  // of kBind and kInterleave
  bool must = false;    // it does not start where this cannot be had
};

struct SpawnRequest {
  const char* wdir = nullptr;     // nullptr or "" = stay
  std::vector<char*> candidates;  // paths to try in order, as execvp would
  std::vector<char*> argv;        // ends with nullptr
  std::vector<char*> envp;        // ends with nullptr
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  int door_fd = -1;          // becomes kWorkerDoorFd; -1 = none
  int pmi_fd = -1;           // becomes kWorkerPmiFd; -1 = none
  bool pmi_offered = false;  // where its limit allows no such number, it starts without
  // Path of a pipe whose only writer is the caller: when that closes, the kernel kills the worker's
  // process group. It becomes kWorkerLifeFd. nullptr = none.
  const char* life = nullptr;
  std::vector<ProcessLimit> limits;
  SpawnBinding binding;
  // Stands still before its first instruction, stopped by SIGSTOP, and can be attached to: as
  // debuggers of parallel programs know it from srun.
  bool held = false;
  bool no_new_privileges = false;  // what it runs gains none, as by set-user-ID programs
  bool terminal = false;  // its stdin becomes its controlling terminal, in a session of its own
};

struct SpawnResult {
  pid_t pid = -1;         // -1: failed
  int error = 0;          // errno
  const char* step = "";  // what failed: "fork", "dup2", "PMI", "bind", "chdir", "hold", "exec"
};

// Gives this process, and so its workers, default signal dispositions. What its caller ignored
// stays ignored, but SIGPIPE.
void ResetSignals();

// The worker leads a process group of its own, dies with the calling process (PR_SET_PDEATHSIG; its
// group does by `life`) and starts with the caller's signal dispositions and an empty signal mask.
// Returns after its exec has succeeded or failed.
SpawnResult Spawn(const SpawnRequest& request);

}  // namespace muster
