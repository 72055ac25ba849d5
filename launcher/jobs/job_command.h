// The words after `launch ps`, `attach`, `logs`, `stop`, `restart` and `chaos`. Pure.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "launcher/jobs/drill_words.h"

namespace muster {

struct JobCommand {
  enum class Kind : uint8_t { kPs, kAttach, kLogs, kStop, kRestart, kChaos };
  Kind kind = Kind::kPs;
  bool help = false;
  std::string job;  // as typed; "" for ps; for restart and chaos: the only one
  bool all = false;
  bool json = false;
  bool follow = false;
  std::optional<uint64_t> lines;    // of the past; none = all (logs), none of them (attach)
  std::optional<absl::Time> since;  // the same; of both, what begins later
  int signal = SIGINT;
  std::optional<absl::Duration> grace;
  bool now = false;
  absl::Duration length = absl::Seconds(10);  // chaos: --for
  std::vector<std::string> words;             // chaos: what to do, as typed
  DrillSpec drill;                            // ... and as it is meant
};

// Whether the first word of a command line is one of these commands.
bool IsJobCommand(absl::string_view word);
// `words`: the command and what follows it; `now` and `zone`: what times of day mean. Errors are
// InvalidArgument: wrong usage, exit 2.
absl::StatusOr<JobCommand> ParseJobCommand(const std::vector<std::string>& words, absl::Time now,
                                           absl::TimeZone zone);
std::string JobCommandHelp(JobCommand::Kind kind);

}  // namespace muster
