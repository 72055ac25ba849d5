#include "launcher/schedule/slurm_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "launcher/schedule/slurm.h"
#include "proto/base/env_names.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

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
    const std::map<std::string, std::string>& environment) {
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
  return std::optional<SlurmJob>(std::move(out));
}

absl::Duration SlurmGrace(absl::Time ends, absl::Time now) {
  const absl::Duration left = ends - now;
  return (left <= kSlurmWarnedWithin ? std::max(kSlurmKillWait, left) : kSlurmKillWait) -
         kSlurmFarewell;
}

absl::Duration LeftOfGrace(absl::Duration grace, absl::Time ends, absl::Time now) {
  return std::min(grace, std::max(ends - now, absl::ZeroDuration()) + kSlurmKillWait);
}

}  // namespace muster
