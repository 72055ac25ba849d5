#include "agent/core/allowed_cpus.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

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

// Who binds jobs where we are, and how to have more.
absl::string_view BinderOf(const CpuBounds& bounds) {
  return bounds.in_pbs           ? "a hook of PBS: qsub -l select=1:ncpus=N asks for N CPUs, "
         : bounds.slurm_cpus > 0 ? "srun without --cpus-per-task, "
                                 : "";
}

}  // namespace

uint32_t SlurmCpus(const char* per_node, const char* on_node) {
  uint32_t most = 0;
  for (const absl::string_view run : absl::StrSplit(per_node == nullptr ? "" : per_node, ',')) {
    uint32_t cpus = 0;
    if (absl::SimpleAtoi(run.substr(0, run.find('(')), &cpus)) {
      most = std::max(most, cpus);
    }
  }
  uint32_t here = 0;
  const bool is_known = absl::SimpleAtoi(on_node == nullptr ? "" : on_node, &here) && here > 0;
  return is_known ? std::min(most, here) : most;
}

absl::StatusOr<CpusForWorkers> AllowedOf(const CpuBounds& bounds) {
  CpusForWorkers out;
  out.cpus = Cut(bounds.mask, bounds.cpuset);
  const CpuSet there =
      bounds.cpuset.has_value() ? Cut(*bounds.cpuset, bounds.online) : bounds.online;
  const std::string cpu = out.cpus.Text();
  const bool accident = out.cpus.Count() == 1 && there.Count() > 1 && bounds.slurm_cpus != 1;
  // Where Slurm makes no cgroups, what is there is not the job's.
  if (accident && bounds.cpuset.has_value() && there.Count() <= bounds.slurm_cpus) {
    out.cpus = there;
    out.notice = absl::StrCat("the Slurm step gave CPU ", cpu, " alone to this agent, and the job ",
                              "has CPUs ", there.Text(),
                              ": workers get these (srun --cpus-per-task says so beforehand)");
  } else if (accident && bounds.cpu_list.empty()) {
    out.notice = absl::StrCat("workers may use CPU ", cpu, " alone, and there are ", there.Count(),
                              " here: something before launch bound it (taskset, ",
                              BinderOf(bounds), "KMP_AFFINITY of a program that called it)");
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
