// What the runs of a sweep have shown, and which is best. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "launcher/sweep/sweep_command.h"

namespace muster {

struct SweepResult {
  SweepRun run;
  std::string failed;                  // how it ended, where that was not well; "" else
  std::optional<double> rate;          // --rate-regex
  std::optional<double> steps;         // per second, as the SDK has counted them
  std::optional<absl::Duration> took;  // where it ended by itself
  std::optional<double> waited;        // the part of its time in which it waited for a CPU
};

// What a run's report (--report) says of steps and waiting goes into `out`. False: it is none.
bool TakeReport(const std::string& report, SweepResult& out);

// A line for each run, and which is best.
std::string SweepTable(const std::vector<SweepResult>& results);

// One JSON object and a newline ("format": "muster-sweep-1"; names stay).
std::string SweepJson(const std::vector<SweepResult>& results);

// Whether there is a best one.
bool HasBest(const std::vector<SweepResult>& results);

}  // namespace muster
