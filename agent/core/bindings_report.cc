#include "agent/core/bindings_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/text.h"

namespace muster {
namespace {

bool Meets(CpuSet a, const CpuSet& b) {
  a.Intersect(b);
  return !a.empty();
}

// Who may run on a core: a rank, '*' for several, '.' for nobody, '-' where none may.
std::string CellOf(const NodePlaces& node, const CpuSet& core) {
  if (!Meets(core, node.allowed)) {
    return "-";
  }
  std::string out = ".";
  for (size_t local = 0; local < node.plan.workers.size(); ++local) {
    if (Meets(core, node.plan.workers[local].cpus)) {
      if (out != ".") {
        return "*";
      }
      out = absl::StrCat(node.ranks[local]);
    }
  }
  return out;
}

// "  package 0  NUMA node 0  0 0 1 1|2 2 3 3": caches are apart.
std::string Picture(const NodePlaces& node) {
  std::vector<std::string> cells;
  size_t width = 1;
  for (const TopologyCore& core : node.topology.cores) {
    cells.push_back(CellOf(node, core.cpus));
    width = std::max(width, cells.back().size());
  }
  std::string out;
  for (size_t i = 0; i < cells.size(); ++i) {
    const TopologyCore& core = node.topology.cores[i];
    const TopologyCore* before = i == 0 ? nullptr : &node.topology.cores[i - 1];
    if (before == nullptr || before->numa != core.numa) {
      const std::vector<uint32_t>& numa = node.topology.numa_nodes;
      absl::StrAppend(&out, before == nullptr ? "" : "]\n", "  package ", core.package,
                      core.numa < numa.size() ? absl::StrCat("  NUMA node ", numa[core.numa]) : "",
                      "  [");
    } else {
      absl::StrAppend(&out, before->l3 == core.l3 ? " " : "|");
    }
    absl::StrAppend(&out, std::string(width - cells[i].size(), ' '), cells[i]);
  }
  return absl::StrCat(out, "]\n");
}

std::vector<std::string> GpuNames(const NodePlaces& node, const WorkerShare& share) {
  std::vector<std::string> out;
  for (const uint32_t gpu : share.gpus) {
    const TopologyDevice& device = node.topology.gpus[gpu];
    out.push_back(device.name.empty() ? absl::StrCat(gpu) : absl::StrCat(gpu, " ", device.name));
  }
  return out;
}

std::string WorkerLine(const NodePlaces& node, size_t local) {
  const WorkerShare& share = node.plan.workers[local];
  std::string out = absl::StrCat(
      "  rank ", node.ranks[local], ": CPUs ", share.cpus.Text(), ", ",
      !share.bound ? "not bound"
      : share.sharers > 1
          ? absl::StrCat(Plural(share.cores, "core", "cores"), " for ", share.sharers, " workers")
          : Plural(share.cores, "core", "cores"));
  if ((share.bound || share.memory_named) && !share.memory.empty()) {
    absl::StrAppend(&out, ", memory of NUMA node ", absl::StrJoin(share.memory, ","));
  }
  if (!share.gpus.empty()) {
    absl::StrAppend(&out, ", GPU ", absl::StrJoin(GpuNames(node, share), ", "));
  }
  if (share.nic.has_value()) {
    absl::StrAppend(&out, ", near ", node.topology.nics[*share.nic].name);
  }
  return absl::StrCat(out, "\n");
}

}  // namespace

std::string PlacesText(const NodePlaces& node) {
  std::string out = absl::StrCat("bindings on ", node.host, ": ",
                                 Plural(node.plan.workers.size(), "worker", "workers"), ", ",
                                 Plural(node.topology.cores.size(), "core", "cores"), " (CPUs ",
                                 node.allowed.Text(), " may be used)\n", Picture(node));
  for (size_t local = 0; local < node.plan.workers.size(); ++local) {
    absl::StrAppend(&out, WorkerLine(node, local));
  }
  return out;
}

bool Drifted(const CpuSet& planned, const std::vector<ThreadCpus>& threads) {
  return std::any_of(threads.begin(), threads.end(),
                     [&](const ThreadCpus& thread) { return !(thread.cpus == planned); });
}

std::string ThreadsText(uint32_t rank, int32_t pid, const CpuSet& planned,
                        const std::vector<ThreadCpus>& threads) {
  constexpr size_t kNamed = 4;
  std::vector<std::string> elsewhere;
  for (const ThreadCpus& thread : threads) {
    if (!(thread.cpus == planned)) {
      elsewhere.push_back(absl::StrCat("thread ", thread.tid, " on ", thread.cpus.Text()));
    }
  }
  const std::string who = absl::StrCat("rank ", rank, " (pid ", pid, "): ");
  if (threads.empty()) {
    return absl::StrCat(who, "it had ended before it was looked at");
  }
  if (elsewhere.empty()) {
    return absl::StrCat(who, Plural(threads.size(), "thread", "threads"), " on CPUs ",
                        planned.Text(), ", as planned");
  }
  const size_t count = elsewhere.size();
  elsewhere.resize(std::min(count, kNamed));
  return absl::StrCat(who, count, " of ", Plural(threads.size(), "thread", "threads"),
                      " not on CPUs ", planned.Text(),
                      ", a library has moved them: ", absl::StrJoin(elsewhere, ", "),
                      count > kNamed ? ", ..." : "");
}

}  // namespace muster
