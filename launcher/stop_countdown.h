// While a job is being stopped: says what is awaited, how long, and how to end it at once. Loop
// thread only.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class StopCountdown {
 public:
  StopCountdown(uv_loop_t* loop, std::function<uint32_t()> workers_left);
  // The same once more changes nothing, unless it is to be `now`. Another signal gives the workers
  // no more time than the first has left them.
  void Begin(int signo, bool now, absl::Duration grace);
  void End();

 private:
  void Tick();

  const std::function<uint32_t()> workers_left_;
  UvTimer timer_;
  int signo_ = 0;                                 // of the last Begin
  absl::Time deadline_ = absl::InfiniteFuture();  // of the job's only stop
};

// "SIGTERM: stopping 3 workers; what still runs in 30.0 s is killed".
std::string StopBegins(int signo, uint32_t workers_left, absl::Duration rest);

// "waiting for 3 workers (checkpointing?), 41 s left". Who presses Ctrl-C knows what they do.
std::string StopProgress(int signo, uint32_t workers_left, absl::Duration rest);

}  // namespace muster
