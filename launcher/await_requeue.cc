#include "launcher/await_requeue.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "agent/probe/command_output.h"
#include "launcher/jobs/wait_signals.h"
#include "launcher/schedule/slurm_requeue.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace muster {
namespace {

constexpr absl::Duration kSaysWithin = absl::Seconds(10);
constexpr absl::Duration kLookEvery = absl::Seconds(1);

std::string Scontrol(const std::vector<std::string>& words) {
  std::vector<std::string> argv = {"scontrol", "show"};
  argv.insert(argv.end(), words.begin(), words.end());
  const absl::StatusOr<std::string> said = CommandOutput(argv, BootNow() + kSaysWithin);
  if (!said.ok()) {
    LogDebug(absl::StrCat("scontrol: ", said.status().message()));
  }
  return said.ok() ? *said : "";
}

}  // namespace

void AwaitRequeue(const JobSpec& spec, const std::string& lost_node) {
  const bool in_script = spec.slurm.has_value() && spec.slurm->in_script;
  if (!in_script || !spec.given_hosts.has_value() || spec.keeper_fd >= 0) {
    return;
  }
  const WaitSignals signals;
  const std::optional<absl::Duration> within = MayBeRequeued(Scontrol({"job", spec.slurm->id}))
                                                   ? NodeIsDownWithin(Scontrol({"config"}))
                                                   : std::nullopt;
  if (!within.has_value()) {
    return;
  }
  LogInfo(absl::StrCat("Slurm starts this job again when it finds ", lost_node,
                       " down itself, which may take ",
                       absl::FormatDuration(absl::Ceil(*within, absl::Seconds(1))),
                       "; scancel ends the wait, and with `sbatch --no-requeue` there is none"));
  const absl::Time until = BootNow() + *within;
  while (BootNow() < until && !WaitSignals::Pending()) {
    // A signal may come to another thread just before.
    signals.Poll(-1, 0, std::min(until - BootNow(), kLookEvery));
  }
  if (WaitSignals::Take() == 0) {
    LogWarning(absl::StrCat("Slurm has not started the job again: for it, ", lost_node,
                            " is there (sinfo -R), or the job has --no-kill"));
  }
}

}  // namespace muster
