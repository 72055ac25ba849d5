#include "agent/core/cpu_claims.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

std::string Prefix(uint32_t uid) { return absl::StrCat("muster-cpus/", uid, "/"); }

CpuSet Without(const CpuSet& set, const CpuSet& others) {
  CpuSet out;
  for (const uint32_t cpu : set.Members()) {
    if (!others.Has(cpu)) {
      out.Add(cpu);
    }
  }
  return out;
}

// What nobody else has, of whole cores or, for hardware threads, of these; nothing where that is
// too little for all.
CpuSet Free(const Topology& topology, const CpuSet& allowed, const CpuSet& taken, uint32_t workers,
            const CpuBinding& binding) {
  const bool threads = binding.bind_to == BindTo::kHwthread;
  CpuSet out;
  uint64_t units = 0;
  for (const TopologyCore& core : topology.cores) {
    CpuSet cpus = core.cpus;
    cpus.Intersect(allowed);
    const CpuSet left = Without(cpus, taken);
    if (threads || left == cpus) {
      out.Unite(left);
      units += threads ? left.Count() : left.empty() ? 0 : 1;
    }
  }
  return units < uint64_t{workers} * std::max(binding.cores_per_worker, 1u) ? CpuSet() : out;
}

}  // namespace

CpuSet CpusOf(const CpuPlan& plan) {
  CpuSet out;
  for (const WorkerShare& share : plan.workers) {
    out.Unite(share.cpus);
  }
  return out;
}

bool WantsOwnCpus(const CpuBinding& binding) {
  return binding.bind_to == BindTo::kHwthread || binding.bind_to == BindTo::kCore ||
         (binding.cores_per_worker > 0 && binding.bind_to != BindTo::kNone);
}

std::vector<std::string> ClaimNames(uint32_t uid, uint32_t pid, const CpuSet& cpus) {
  const std::string prefix = absl::StrCat(Prefix(uid), pid, "/");
  std::vector<std::string> out;
  for (const absl::string_view range : absl::StrSplit(cpus.Text(), ',', absl::SkipEmpty())) {
    if (!out.empty() && out.back().size() + 1 + range.size() <= kClaimBytesMax) {
      absl::StrAppend(&out.back(), ",", range);
    } else {
      out.push_back(absl::StrCat(prefix, range));
    }
  }
  return out;
}

CpuSet ClaimedCpus(uint32_t uid, absl::string_view unix_sockets) {
  const std::string before = absl::StrCat(" @", Prefix(uid));
  CpuSet out;
  for (const absl::string_view line : absl::StrSplit(unix_sockets, '\n')) {
    const size_t at = line.find(before);
    const size_t list =
        at == absl::string_view::npos ? at : line.find('/', at + before.size());  // behind the PID
    if (list == absl::string_view::npos) {
      continue;
    }
    if (const std::optional<CpuSet> cpus = ParseCpuList(line.substr(list + 1)); cpus.has_value()) {
      out.Unite(*cpus);
    }
  }
  return out;
}

absl::StatusOr<CpuPlan> PlanBeside(const Topology& topology, const CpuSet& allowed,
                                   const CpuSet& taken, uint32_t workers,
                                   const CpuBinding& binding) {
  if (!taken.empty()) {
    const CpuSet free = Free(topology, allowed, taken, workers, binding);
    if (!free.empty()) {
      absl::StatusOr<CpuPlan> plan = PlanCpus(topology, free, workers, binding);
      if (plan.ok()) {  // else not where --map-by wants them
        return plan;
      }
    }
  }
  return PlanCpus(topology, allowed, workers, binding);
}

std::string SharedNotice(const CpuPlan& plan, const CpuSet& taken) {
  CpuSet shared = CpusOf(plan);
  shared.Intersect(taken);
  return shared.empty() ? ""
                        : absl::StrCat("other workers of yours are bound to ",
                                       shared.Count() == 1 ? "CPU " : "CPUs ", shared.Text(),
                                       ", which these get, too, as too few others are left: fewer "
                                       "workers, or --bind-to none");
}

}  // namespace muster
