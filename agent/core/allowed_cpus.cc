#include "agent/core/allowed_cpus.h"

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// A1
CpuSet Cut(const CpuSet& set, const std::optional<CpuSet>& bound) {
  CpuSet both = set;
  if (bound.has_value()) {
    both.Intersect(*bound);
  }
  return both.empty() ? set : both;
}

}  // namespace

absl::StatusOr<CpusForWorkers> AllowedOf(const CpuBounds& bounds) {
  CpusForWorkers out;
  out.cpus = Cut(bounds.mask, bounds.cpuset);
  const CpuSet there =
      bounds.cpuset.has_value() ? Cut(*bounds.cpuset, bounds.online) : bounds.online;
  const std::string cpu = out.cpus.Text();
  if (out.cpus.Count() == 1 && there.Count() > 1 && bounds.slurm && bounds.cpuset.has_value()) {
    out.cpus = there;
    out.notice = absl::StrCat("the Slurm step gave CPU ", cpu, " alone to this agent, and the job ",
                              "has CPUs ", there.Text(),
                              ": workers get these (srun --cpus-per-task says so beforehand)");
  } else if (out.cpus.Count() == 1 && there.Count() > 1 && bounds.cpu_list.empty()) {
    out.notice = absl::StrCat(
        "workers may use CPU ", cpu, " alone, and there are ", there.Count(),
        " here: something before launch bound it (taskset, srun without --cpus-per-task, ",
        "KMP_AFFINITY of a program that called it)");
  }
  if (bounds.cpu_list.empty()) {
    return out;
  }
  const std::optional<CpuSet> wanted = ParseCpuList(bounds.cpu_list);
  const std::string may = out.cpus.Text();
  if (wanted.has_value()) {
    out.cpus.Intersect(*wanted);
  }
  if (!wanted.has_value() || out.cpus.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--cpu-list ", bounds.cpu_list,
                                                   ": the workers of this node may use CPUs ", may,
                                                   "; name some of these, as in 0-3,8"));
  }
  return out;
}

}  // namespace muster
