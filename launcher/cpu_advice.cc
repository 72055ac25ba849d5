#include "launcher/cpu_advice.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// A thread that is moved or woken waits a little, whatever one does.
constexpr double kFine = 0.15;
// Below it a worker was idle: what it waited for a CPU when it woke does not matter.
constexpr double kIdle = 0.05;
// Of the CPU time of workers that have ended, so much must have been looked at: else threads that
// nobody saw have had the rest.
constexpr double kSeenMin = 0.5;

int Percent(double share) { return static_cast<int>(std::lround(100 * share)); }

// So many threads could run at a time, in the mean.
double CpusWanted(const NodeUse& use) {
  return use.lasted > absl::ZeroDuration() ? absl::FDivDuration(use.ran + use.waited, use.lasted)
                                           : 0;
}

bool IsSeen(const NodeUse& use) {
  return use.ran + use.waited > absl::ZeroDuration() && use.ran >= kSeenMin * use.cpu_time;
}

std::string NothingSeen(const NodeUse& use) {
  if (use.ran + use.waited == absl::ZeroDuration()) {
    return "the kernel does not say how long the workers waited for a CPU (no "
           "/proc/PID/task/TID/schedstat, or they never ran)";
  }
  return absl::StrCat("the workers' threads ended too soon to say how long they waited for a CPU: ",
                      ShortDuration(use.ran), " of ", ShortDuration(use.cpu_time),
                      " on a CPU were seen");
}

std::string WhatToTry(const NodeUse& use) {
  const double wanted = CpusWanted(use);
  if (use.workers > use.cpus) {
    return absl::StrCat("try --nproc-per-node ", use.cpus);
  }
  const uint32_t threads = std::max(use.cpus / use.workers, 1u);
  if (wanted > use.cpus) {
    return absl::StrCat("their threads wanted ", std::lround(wanted), " CPUs at a time, try ",
                        "OMP_NUM_THREADS=", threads);
  }
  return absl::StrCat(
      "there are CPUs enough for them, so other programs ran there, or many threads ",
      "share few of the CPUs: look with --report-bindings, try --bind-to none");
}

}  // namespace

double WaitedShare(const NodeUse& use) {
  const absl::Duration all = use.ran + use.waited;
  return all > absl::ZeroDuration() ? absl::FDivDuration(use.waited, all) : 0;
}

std::string CpuAdvice(const std::vector<UseRecord>& uses) {
  const auto worst =
      std::max_element(uses.begin(), uses.end(), [](const UseRecord& a, const UseRecord& b) {
        return IsSeen(a.use) == IsSeen(b.use) ? WaitedShare(a.use) < WaitedShare(b.use)
                                              : IsSeen(b.use);
      });
  if (worst == uses.end()) {
    return "no node has said what its workers used";
  }
  const NodeUse& use = worst->use;
  if (!IsSeen(use)) {
    return NothingSeen(use);
  }
  const double share = WaitedShare(use);
  const std::string where =
      uses.size() > 1 ? absl::StrCat(worst->hostname, ", the worst of ", uses.size(), " nodes: ")
                      : "";
  const bool idle = CpusWanted(use) < kIdle * use.workers;
  return absl::StrCat(where, Plural(use.workers, "worker", "workers"), " on ",
                      Plural(use.cpus, "CPU", "CPUs"), " waited ", Percent(share),
                      " % of the time for a CPU: ",
                      idle            ? "fine, they had little to do"
                      : share < kFine ? "fine"
                                      : WhatToTry(use));
}

}  // namespace muster
