// What is known of a signal that stops a job, for its report. Pure.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "launcher/job_spec.h"

namespace muster {

enum class StopBy : uint8_t { kSignal, kCommand };  // kCommand: `launch stop`

// What a user wants of the whole job.
struct StopWish {
  int signo = SIGTERM;
  bool now = false;
  StopBy by = StopBy::kSignal;
  absl::Duration grace = absl::InfiniteDuration();  // `launch stop --grace`: no more than that
};

// One sentence without its full stop. `now`: by the wall clock, when the signal came; the infinite
// past = where it came to another node, of whose time nothing is said.
std::string StopCause(const JobSpec& spec, int signo, StopBy by, absl::Time now);

}  // namespace muster
