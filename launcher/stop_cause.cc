#include "launcher/stop_cause.h"

#include <csignal>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// Whoever ends the job that launch is a part of does it by SIGTERM.
struct Warden {
  std::string job;                // "Slurm job 17"
  std::string who;                // "Slurm"
  std::vector<std::string> when;  // it does so, but for the end of the job's time
  std::string limit;              // that
  absl::Time ends = absl::InfiniteFuture();
};

// A job has begun a little before its first process that we can see.
constexpr absl::Duration kBeganBefore = absl::Seconds(5);

std::optional<Warden> WardenOf(const JobSpec& spec) {
  if (spec.slurm.has_value()) {
    return Warden{spec.slurm->name,
                  "Slurm",
                  {"scancel", "a requeue", "preemption", "the loss of a node"},
                  "time limit",
                  spec.slurm->ends};
  }
  if (spec.pbs.has_value()) {
    const absl::Duration walltime = spec.pbs->walltime;
    const std::string length =
        walltime == absl::InfiniteDuration() ? "" : absl::StrCat(" of ", ShortDuration(walltime));
    return Warden{
        spec.pbs->name, "PBS", {"qdel"}, absl::StrCat("walltime", length), spec.pbs->ends};
  }
  if (spec.in_pod || spec.pod.has_value()) {
    return Warden{spec.pod.has_value() ? absl::StrCat("Job ", spec.pod->job) : "this pod",
                  "Kubernetes",
                  {"the deletion of a pod", "its eviction"},
                  "deadline"};
  }
  return std::nullopt;
}

// "a, b and c".
std::string Listed(const std::vector<std::string>& items) {
  std::string out = items.front();
  for (size_t i = 1; i < items.size(); ++i) {
    absl::StrAppend(&out, i + 1 == items.size() ? " and " : ", ", items[i]);
  }
  return out;
}

}  // namespace

std::string StopCause(const JobSpec& spec, int signo, StopBy by, absl::Time now) {
  std::optional<Warden> warden = WardenOf(spec);
  if (signo != SIGTERM || by == StopBy::kCommand || !warden.has_value()) {
    return absl::StrCat("stopped by the user (", SignalName(signo), ")");
  }
  if (now >= warden->ends - kBeganBefore) {
    return absl::StrCat(warden->job, " was ended by ", warden->who, " (SIGTERM): its ",
                        warden->limit, " is over");
  }
  std::string left;
  if (now == absl::InfinitePast() || warden->ends == absl::InfiniteFuture()) {
    warden->when.push_back(absl::StrCat("the ", warden->limit));
  } else {
    left = absl::StrCat(": of its ", warden->limit, ", ", ShortDuration(warden->ends - now),
                        " are left");
  }
  return absl::StrCat("launch was sent SIGTERM in ", warden->job, "; ", warden->who,
                      " sends it at ", Listed(warden->when),
                      ", and so may a script (kill, timeout)", left);
}

}  // namespace muster
