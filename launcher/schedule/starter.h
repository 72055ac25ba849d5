// Starts one agent per node and hands over a connection to each. Loop thread only; so do the
// callbacks come.
//
// Invariants:
//  S1 for each Start: either on_failed once, or on_connected once and then on_exit once;
//  S2 no callback after Stop's `done`; none is made inside Start or Stop;
//  S3 at most kStartsAtOnceMax starts are under way, the rest waits in order;
//  S4 no child outlives the starter's process (parent-death signal, closed channel).
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "proto/base/unique_fd.h"
#include "proto/wire/bootstrap.h"

namespace muster {

// More hardly come sooner: ssh's key exchange takes this machine's cores, and an agent of keys, or
// a host that all are reached through, takes one at a time.
inline constexpr size_t kStartsAtOnceMax = 64;

struct StartTarget {
  size_t index = 0;  // of the node in the caller's list; handed back in the callbacks
  std::string host;  // as the user wrote it, for ssh and for people
  AgentBootstrap bootstrap;
};

class Starter {
 public:
  struct Callbacks {
    // The agent runs and has its bootstrap; the socket now carries gRPC
    // (MasterServer::AdoptConnection).
    std::function<void(size_t index, UniqueFd socket)> on_connected;
    // A sentence for people: host, what happened, last words of the remote side, next step.
    std::function<void(size_t index, std::string reason)> on_failed;
    // A connected agent's process (ssh) ended; `how` = "ended with status 1", last words included;
    // `killed`: by a signal, or ssh's own end, as far as this starter knows.
    std::function<void(size_t index, std::string how, bool killed)> on_exit;
    // A line that the agent (or the remote shell) wrote on stderr after it was connected.
    std::function<void(size_t index, std::string line)> on_line;
    // Optional: the scheduler ends the step in which all agents run (scancel JOB.STEP).
    std::function<void()> on_cancelled;
    // Optional: the child that starts the agent runs (it is no worker of ours).
    std::function<void(size_t index, int pid)> on_spawned;
  };
  virtual ~Starter() = default;
  virtual void SetCallbacks(Callbacks callbacks) = 0;  // before the first Start
  // May be called again for an index: what is left of the earlier start is ended, and no callback
  // of that comes any more.
  virtual void Start(StartTarget target) = 0;
  // Closes what is not connected yet, ends every child (KILL at the latest after 2 s), reaps, then
  // `done`.
  virtual void Stop(std::function<void()> done) = 0;
};

}  // namespace muster
