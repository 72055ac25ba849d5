#include "launcher/schedule/pbs_job.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/schedule/pbs.h"

namespace muster {
namespace {

constexpr int64_t kTicksInSecond = 100;  // of /proc, on every machine that Linux runs on
// Of /proc/PID/stat, behind the name, which may have blanks and parentheses: proc(5).
constexpr size_t kGroup = 2;
constexpr size_t kSession = 3;
constexpr size_t kStarted = 19;

std::optional<int64_t> FieldOf(absl::string_view stat, size_t field) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
  int64_t value = 0;
  return field < fields.size() && absl::SimpleAtoi(fields[field], &value)
             ? std::optional<int64_t>(value)
             : std::nullopt;
}

// When this machine did, by its wall clock.
std::optional<absl::Time> Booted(absl::string_view stat) {
  for (absl::string_view line : absl::StrSplit(stat, '\n')) {
    int64_t seconds = 0;
    if (absl::ConsumePrefix(&line, "btime ") && absl::SimpleAtoi(line, &seconds)) {
      return absl::FromUnixSeconds(seconds);
    }
  }
  return std::nullopt;
}

// T2.
std::optional<absl::Time> Began(const FileReader& read_file) {
  const std::string self = read_file("/proc/self/stat").value_or("");
  const std::optional<absl::Time> booted = Booted(read_file("/proc/stat").value_or(""));
  for (const size_t leader : {kSession, kGroup}) {
    const std::optional<int64_t> pid = FieldOf(self, leader);
    const std::string path = absl::StrCat("/proc/", pid.value_or(0), "/stat");
    const std::optional<int64_t> ticks = FieldOf(read_file(path).value_or(""), kStarted);
    if (booted.has_value() && ticks.has_value()) {
      return *booted + absl::Seconds(1) * *ticks / kTicksInSecond;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<PbsJob> ReadPbsJob(const std::map<std::string, std::string>& environment,
                                 const FileReader& read_file) {
  if (!InPbs(environment)) {
    return std::nullopt;
  }
  PbsJob out;
  out.name = absl::StrCat("PBS job ", environment.at("PBS_JOBID"));
  const auto kind = environment.find("PBS_ENVIRONMENT");
  out.in_script = kind != environment.end() && kind->second == "PBS_BATCH";
  const auto walltime = environment.find("PBS_WALLTIME");
  int64_t seconds = 0;
  if (walltime == environment.end() || !absl::SimpleAtoi(walltime->second, &seconds) ||
      seconds <= 0) {
    return out;
  }
  out.walltime = absl::Seconds(seconds);
  if (const std::optional<absl::Time> began = Began(read_file)) {
    out.ends = *began + out.walltime;
  }
  return out;
}

}  // namespace muster
