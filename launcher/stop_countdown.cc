#include "launcher/stop_countdown.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "rendezvous/core/stop_told.h"

namespace muster {
namespace {

constexpr absl::Duration kEvery = absl::Seconds(5);

}  // namespace

StopCountdown::StopCountdown(uv_loop_t* loop, std::function<uint32_t()> workers_left)
    : workers_left_(std::move(workers_left)), timer_(loop, [this] { Tick(); }) {
  timer_.Unref();
}

void StopCountdown::Begin(int signo, bool now, absl::Duration grace) {
  if (now) {
    timer_.Stop();
    LogInfo("killing the workers");
    return;
  }
  if (timer_.active() && signo == signo_) {
    return;  // a scheduler sends it again
  }
  signo_ = signo;
  const absl::Time now_is = BootNow();
  deadline_ = std::min(deadline_, now_is + grace);
  LogInfo(StopBegins(signo, workers_left_(), deadline_ - now_is));
  timer_.StartEvery(kEvery);
}

void StopCountdown::Tick() {
  const uint32_t left = workers_left_();
  const absl::Duration rest = deadline_ - BootNow();
  if (left > 0 && rest > absl::ZeroDuration()) {
    LogInfo(StopProgress(signo_, left, rest));
  }
}

void StopCountdown::End() { timer_.Stop(); }

std::string StopBegins(int signo, uint32_t workers_left, absl::Duration rest) {
  if (workers_left == 0) {
    return absl::StrCat(SignalName(signo), ": stopping the job");
  }
  const absl::string_view again = signo == SIGINT ? "; Ctrl-C again kills now" : "";
  return absl::StrCat(SignalName(signo), ": ", StopSentence(workers_left, rest), again);
}

std::string StopProgress(int signo, uint32_t workers_left, absl::Duration rest) {
  return WaitSentence(workers_left, rest, signo == SIGINT ? "" : " (checkpointing?)");
}

}  // namespace muster
