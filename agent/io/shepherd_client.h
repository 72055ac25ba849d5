// The I/O process's side of the shepherd: sends orders without ever blocking, hands its news on.
// Loop thread only.
#pragma once

#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/shepherd_watch.h"
#include "agent/io/shepherd.h"
#include "agent/io/shepherd_protocol.h"
#include "proto/wire/uv_handles.h"

namespace muster {

struct WorkerProgram {
  std::string wdir;
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // of all workers; PATH in it finds argv[0]
  bool hold = false;  // each stands still before its first instruction until Signal(SIGCONT)
  bool no_new_privileges = false;  // SpawnRequest::no_new_privileges
};

struct WorkerEnd {
  int wait_status = 0;
  uint64_t peak_bytes = 0;
  bool alone = false;  // nothing at all is left below the shepherd
  EndTimes times;
};

// A worker's end of what it speaks PMI-1 on.
struct PmiEnd {
  UniqueFd fd;
  bool offered = false;  // it may do without: where its limits allow no kWorkerPmiFd, say
};

class ShepherdClient {
 public:
  struct Callbacks {
    std::function<void(uint32_t local_rank, pid_t pid)> on_spawned;
    std::function<void(uint32_t local_rank, int error, std::string what)> on_spawn_failed;
    std::function<void(uint32_t local_rank, const WorkerEnd& end)> on_ended;
    std::function<void()> on_groups_ended;
    std::function<void(std::string survivors)> on_cleared;
    std::function<void()> on_lease_ended;
    std::function<void(const std::string& why)> on_helper_failed;
    // The shepherd itself died, and everything below this process has been killed. What was asked
    // before has no other answer. Another one serves what is asked from now on, if there is one:
    // pid().
    std::function<void()> on_dead;
  };

  ShepherdClient(uv_loop_t* loop, ShepherdProcess process, Callbacks callbacks);
  ~ShepherdClient();

  void SetProgram(const WorkerProgram& program);
  // `stdin_fd` may be invalid: /dev/null, and `pmi`'s: none. The descriptors are the worker's ends
  // and are closed here once sent.
  void Spawn(uint32_t local_rank, const std::vector<std::string>& own_environment,
             const SpawnBinding& binding, UniqueFd stdin_fd, UniqueFd stdout_fd, UniqueFd stderr_fd,
             PmiEnd pmi = {});
  // The same on a terminal of its own: the worker's end of it.
  void SpawnOnTerminal(uint32_t local_rank, const std::vector<std::string>& own_environment,
                       const SpawnBinding& binding, UniqueFd terminal, PmiEnd pmi = {});
  // Starts a process of ours beside the workers, with `socket` as its kWorkerPmiFd; Clear() ends
  // it.
  void StartHelper(const std::vector<std::string>& argv,
                   const std::vector<std::string>& environment, UniqueFd socket);
  // To every worker, and what it has started. `stops`: also SIGUSR1 and SIGUSR2 are to end them.
  void Signal(int signo, bool stops = false);
  // After Signal, when all workers have ended; on_groups_ended follows, unless Clear comes first.
  void AwaitGroups();
  void KillWorker(uint32_t local_rank);
  // Ends what this worker, which has ended, left behind, before a later Spawn.
  void ClearWorker(uint32_t local_rank);
  void Clear();
  void SetLease(int64_t boot_ns);
  void SetRunDir(const std::string& folder);
  // To be called again and again: a shepherd that has nothing to do and does not answer for 15 s,
  // as somebody has stopped it (SIGSTOP) or the kernel holds it, is killed. Likewise, of itself,
  // one that has not started a worker for 5 min, or not seen the end of the lease 1 s after it.
  // Waits for nothing.
  void Ping();
  // Ends the shepherd (it kills what is left) and waits for it.
  void Close();
  // SIGKILL to the shepherd itself. False: there is none any more.
  bool Kill();
  pid_t pid() const { return process_.pid; }  // -1: there is none

 private:
  void SendSpawn(uint32_t local_rank, const std::vector<std::string>& own_environment,
                 const SpawnBinding& binding, PmiEnd pmi, ShepherdFrame frame);
  void Send(ShepherdFrame frame);
  void Flush();
  void Watch();
  void OnReady(int events);
  void Handle(const ShepherdFrame& frame);
  void KillOrGiveUp();
  void SendPing();
  void Look();
  void ArmLook();
  void Died();
  void OnBirth();
  void Adopt(ShepherdFrame born);
  void GoOnWithout();

  uv_loop_t* const loop_;
  ShepherdProcess process_;
  Callbacks callbacks_;
  std::optional<UvPoll> poll_;       // none once closed
  int watched_ = 0;                  // what it waits for
  std::deque<ShepherdFrame> queue_;  // bounded by the orders of one round: two a worker + a few
  bool dead_ = false;                // until there is another
  std::optional<UvPoll> births_poll_;
  UvTimer births_timer_;
  int64_t lease_ = 0;  // what the next one is told
  UvTimer clear_timer_;
  bool killed_ = false;  // because it did not answer
  UvTimer look_timer_;
  ShepherdWatch watch_;
};

}  // namespace muster
