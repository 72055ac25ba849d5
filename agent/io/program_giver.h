// Gives this agent's own program to the shells of other nodes that have none, where launch has sent
// them here: launch sends it to few nodes (launcher/schedule/copy_routes.h). Such a shell
// says the token, which it has from launch over ssh as it has the program's SHA-256, and a newline;
// it gets the program's bytes and the connection's end. Loop thread only; never waits.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/bootstrap.h"
#include "proto/wire/uv_handles.h"

namespace muster {

struct ProgramGiverOptions {
  UniqueFd listening;
  UniqueFd program;  // a file, whole
  std::string token;
  std::function<void()> on_given = {};  // once for each that got it whole
  size_t takers_max = 64;               // launch sends two at a time; more wait in the queue
  absl::Duration stall_max = absl::Seconds(10);
  absl::Duration idle_max = kAgentGivesFor;  // then the port is closed
};

class ProgramGiver {
 public:
  // The handles alone do not keep the loop running.
  ProgramGiver(uv_loop_t* loop, ProgramGiverOptions options);
  bool listens() const { return options_.listening.valid(); }

 private:
  struct Taker {
    UniqueFd socket;
    std::unique_ptr<UvPoll> poll;  // closed before `socket`
    std::string said;
    bool gets = false;
    int64_t sent = 0;
    absl::Time moved;
  };
  using Takers = std::list<Taker>;

  void Accept();
  // These: whether it goes on.
  bool GoOn(Taker& taker);
  bool Listen(Taker& taker);
  bool Give(Taker& taker);
  void LookAround();
  void Drop(Takers::iterator taker);

  uv_loop_t* const loop_;
  ProgramGiverOptions options_;
  int64_t bytes_ = 0;
  absl::Time called_;  // the last time somebody came
  Takers takers_;
  std::unique_ptr<UvPoll> door_;
  UvTimer every_while_;
};

// A giver in a process of its own, which ends with the thread that calls this: whatever the agent
// waits for meanwhile, others may wait for the program. Call before there are other threads. False:
// no process can be started.
bool GiveBeside(ProgramGiverOptions options);

}  // namespace muster
