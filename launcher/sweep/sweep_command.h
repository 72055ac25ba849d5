// The words after `launch sweep`, and the command line of each job that it runs. Pure but for the
// files that ParseCommandLine reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/options.h"

namespace muster {

// One combination of what is varied.
struct SweepRun {
  std::string count;               // of workers, as it was typed; "" where that is not varied
  std::string bind_to;             // likewise
  std::string said;                // "--nproc-per-node 8 --bind-to core"
  std::vector<std::string> words;  // behind the name of launch
};

struct SweepCommand {
  bool help = false;
  bool json = false;
  absl::Duration each = absl::Seconds(15);  // --sweep-seconds
  std::string rate_regex;                   // "" = none
  std::vector<SweepRun> runs;               // in the order of the lists
};

bool IsSweepCommand(absl::string_view word);

// `words`: "sweep" and what follows it. Every combination is a command line that launch takes.
// Errors are InvalidArgument, with the option, the value and what is wanted.
absl::StatusOr<SweepCommand> ParseSweepCommand(const std::vector<std::string>& words,
                                               const Environment& environment,
                                               const FileReader& read_job_file);

std::string SweepHelp();

}  // namespace muster
