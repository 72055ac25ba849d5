#include "launcher/schedule/slurm_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/schedule/slurm.h"
#include "proto/base/env_names.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::Duration kFarewell = absl::Seconds(5);  // J2
constexpr uint32_t kKillWaitMax = 65533;                // Slurm's own

// 0 where it is not set.
absl::StatusOr<uint32_t> NumberOf(const std::map<std::string, std::string>& environment,
                                  const char* name) {
  const auto at = environment.find(name);
  if (at == environment.end() || at->second.empty()) {
    return 0;
  }
  uint32_t number = 0;
  if (!absl::SimpleAtoi(at->second, &number)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, "=", at->second, ": want a number, as Slurm writes it; `unset ", name, "` helps"));
  }
  return number;
}

}  // namespace

absl::StatusOr<std::optional<SlurmJob>> ReadSlurmJob(
    const std::map<std::string, std::string>& environment, const FileReader& read_file) {
  const auto id = environment.find("SLURM_JOB_ID");
  if (id == environment.end() || id->second.empty() || environment.count(kEnvJobId) != 0) {
    return std::nullopt;
  }
  SlurmJob out;
  out.id = id->second;
  out.name = absl::StrCat("Slurm job ", out.id);
  ASSIGN_OR_RETURN(const uint32_t ends_s, NumberOf(environment, "SLURM_JOB_END_TIME"));
  if (ends_s != 0) {
    out.ends = absl::FromUnixSeconds(ends_s);
  }
  out.in_script =
      environment.count("SLURMD_NODENAME") != 0 && environment.count("SLURM_STEP_ID") == 0;
  out.in_step = environment.count("SLURM_STEP_ID") != 0 && !IsShell(environment);
  ASSIGN_OR_RETURN(const uint32_t tasks, NumberOf(environment, "SLURM_STEP_NUM_TASKS"));
  out.many_tasks = tasks > 1;
  ASSIGN_OR_RETURN(out.restarts, NumberOf(environment, "SLURM_RESTART_COUNT"));
  const auto named = environment.find("SLURM_CONF");
  for (const std::string& path :
       {named == environment.end() ? "" : named->second, std::string("/etc/slurm/slurm.conf"),
        std::string("/run/slurm/conf/slurm.conf")}) {
    const absl::StatusOr<std::string> text =
        path.empty() ? absl::NotFoundError("") : read_file(path);
    if (text.ok()) {
      out.kill_wait = KillWaitOf(*text).value_or(kSlurmKillWait);
      break;
    }
  }
  return std::optional<SlurmJob>(std::move(out));
}

std::optional<absl::Duration> KillWaitOf(absl::string_view configuration) {
  std::optional<absl::Duration> out;
  for (absl::string_view line : absl::StrSplit(configuration, '\n')) {
    line = line.substr(0, line.find('#'));
    for (const absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t\r"))) {
      const std::pair<absl::string_view, absl::string_view> both =
          absl::StrSplit(word, absl::MaxSplits('=', 1));
      uint32_t number = 0;
      if (absl::EqualsIgnoreCase(both.first, "KillWait") &&
          absl::SimpleAtoi(both.second, &number) && number <= kKillWaitMax) {
        out = absl::Seconds(number);
      }
    }
  }
  return out;
}

absl::Duration GraceOf(absl::Duration kill_wait) {
  return kill_wait - std::min(kFarewell, kill_wait / 4);
}

absl::Duration SlurmGrace(const SlurmJob& job, absl::Time now) {
  const absl::Duration left = job.ends - now;
  return GraceOf(left <= kSlurmWarnedWithin ? std::max(job.kill_wait, left) : job.kill_wait);
}

absl::Duration LeftOfGrace(absl::Duration grace, const SlurmJob& job, absl::Time now) {
  return std::min(grace, std::max(job.ends - now, absl::ZeroDuration()) + job.kill_wait);
}

}  // namespace muster
