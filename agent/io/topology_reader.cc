#include "agent/io/topology_reader.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/io/node_facts.h"
#include "agent/io/small_file.h"

namespace muster {
namespace {

constexpr size_t kListBytesMax = 64u << 10;  // of 65536 CPUs with gaps: never more in practice

std::string CpuFile(const std::string& root, uint32_t cpu, const char* name) {
  return absl::StrCat(root, "/sys/devices/system/cpu/cpu", cpu, "/", name);
}

std::optional<CpuSet> ReadList(const std::string& path) {
  return ParseCpuList(ReadHead(path, kListBytesMax));
}

uint32_t ReadNumber(const std::string& path) {
  uint32_t out = 0;
  return absl::SimpleAtoi(ReadHead(path, 64), &out) ? out : 0;
}

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    out.push_back(it->path().filename());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Sets that together hold all CPUs, each found by asking one of its members.
class Groups {
 public:
  // The number of the group of `cpu`; `read` gives the group of one that is in none so far. All of
  // which nothing can be read are one.
  template <typename F>
  uint32_t Of(uint32_t cpu, F read) {
    for (uint32_t i = 0; i < sets_.size(); ++i) {
      if (sets_[i].Has(cpu)) {
        return i + 1;
      }
    }
    std::optional<CpuSet> set = read();
    if (!set.has_value() || !set->Has(cpu)) {
      return 0;
    }
    sets_.push_back(*std::move(set));
    return static_cast<uint32_t>(sets_.size());
  }

 private:
  std::vector<CpuSet> sets_;
};

struct NumaNode {
  uint32_t number;
  CpuSet cpus;
};

// Those without CPUs have memory only.
std::vector<NumaNode> ReadNumaNodes(const std::string& root) {
  std::vector<NumaNode> out;
  const std::string folder = absl::StrCat(root, "/sys/devices/system/node");
  for (const std::string& name : Names(folder)) {
    absl::string_view number = name;
    NumaNode node = {};
    if (absl::ConsumePrefix(&number, "node") && absl::SimpleAtoi(number, &node.number)) {
      if (auto cpus = ReadList(absl::StrCat(folder, "/", name, "/cpulist")); cpus.has_value()) {
        node.cpus = *std::move(cpus);
        out.push_back(std::move(node));
      }
    }
  }
  std::sort(out.begin(), out.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
  return out;
}

// Newer kernels have the first name, older ones the second.
std::optional<CpuSet> ReadEither(const std::string& root, uint32_t cpu, const char* name,
                                 const char* older) {
  std::optional<CpuSet> out = ReadList(CpuFile(root, cpu, name));
  return out.has_value() ? out : ReadList(CpuFile(root, cpu, older));
}

void ReadCores(const std::string& root, const CpuSet& cpus, Topology& topology) {
  const std::vector<NumaNode> nodes = ReadNumaNodes(root);
  for (const NumaNode& node : nodes) {
    topology.numa_nodes.push_back(node.number);
  }
  // Intel's two kinds of cores; elsewhere each CPU has its capacity, or none has.
  const std::optional<CpuSet> fast = ReadList(absl::StrCat(root, "/sys/devices/cpu_core/cpus"));
  Groups packages;
  Groups caches;
  CpuSet done;
  bool capacities = true;
  for (const uint32_t cpu : cpus.Members()) {
    if (done.Has(cpu)) {
      continue;
    }
    TopologyCore core;
    core.cpus = ReadEither(root, cpu, "topology/core_cpus_list", "topology/thread_siblings_list")
                    .value_or(CpuSet());
    core.cpus.Intersect(cpus);
    core.cpus.Add(cpu);
    done.Unite(core.cpus);
    core.package = packages.Of(cpu, [&] {
      return ReadEither(root, cpu, "topology/package_cpus_list", "topology/core_siblings_list");
    });
    core.l3 = caches.Of(
        cpu, [&] { return ReadList(CpuFile(root, cpu, "cache/index3/shared_cpu_list")); });
    const auto node = std::find_if(nodes.begin(), nodes.end(),
                                   [cpu](const NumaNode& one) { return one.cpus.Has(cpu); });
    core.numa = node == nodes.end() ? 0 : static_cast<uint32_t>(node - nodes.begin());
    if (fast.has_value()) {
      core.speed = fast->Has(cpu) ? 1 : 0;
    } else if (capacities) {
      core.speed = ReadNumber(CpuFile(root, cpu, "cpu_capacity"));
      capacities = core.speed != 0;
    }
    topology.cores.push_back(std::move(core));
  }
  Arrange(topology);
}

std::string ReadUuid(const std::string& information) {
  const std::string text = ReadHead(information, kListBytesMax);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "GPU UUID:")) {
      return std::string(absl::StripAsciiWhitespace(line));
    }
  }
  return "";
}

// As the driver lists them: by address. In a container that has some of them only, nobody knows
// which these are.
std::vector<TopologyDevice> ReadGpus(const std::string& root) {
  const std::string folder = absl::StrCat(root, "/proc/driver/nvidia/gpus");
  std::vector<TopologyDevice> out;
  for (std::string& name : Names(folder)) {
    TopologyDevice gpu;
    gpu.near = ReadList(absl::StrCat(root, "/sys/bus/pci/devices/", name, "/local_cpulist"))
                   .value_or(CpuSet());
    gpu.uuid = ReadUuid(absl::StrCat(folder, "/", name, "/information"));
    gpu.name = std::move(name);
    out.push_back(std::move(gpu));
  }
  if (const uint32_t there = CountGpus(root, nullptr); there != out.size()) {
    out.assign(there, TopologyDevice());
  }
  return out;
}

// Those that CUDA will show, in its order.
std::vector<TopologyDevice> Visible(std::vector<TopologyDevice> gpus, const char* cuda_visible) {
  if (cuda_visible == nullptr) {
    return gpus;
  }
  std::vector<TopologyDevice> out;
  for (VisibleGpu& one : VisibleGpus(gpus.size(), cuda_visible)) {
    if (one.number.has_value()) {
      out.push_back(gpus[*one.number]);
      continue;
    }
    const auto named = std::find_if(gpus.begin(), gpus.end(), [&one](const TopologyDevice& gpu) {
      return absl::StartsWith(gpu.uuid, one.uuid);
    });
    out.push_back(named != gpus.end() ? *named : TopologyDevice{"", std::move(one.uuid), CpuSet()});
  }
  return out;
}

std::vector<TopologyDevice> ReadNics(const std::string& root) {
  std::vector<TopologyDevice> out;
  const std::string folder = absl::StrCat(root, "/sys/class/infiniband");
  for (std::string& name : Names(folder)) {
    TopologyDevice nic;
    nic.near =
        ReadList(absl::StrCat(folder, "/", name, "/device/local_cpulist")).value_or(CpuSet());
    nic.name = std::move(name);
    out.push_back(std::move(nic));
  }
  return out;
}

}  // namespace

Topology ReadTopology(const CpuSet& known, const char* cuda_visible, const std::string& root) {
  Topology topology;
  CpuSet cpus = OnlineCpus(root);
  cpus.Unite(known);
  ReadCores(root, cpus, topology);
  topology.gpus = Visible(ReadGpus(root), cuda_visible);
  topology.nics = ReadNics(root);
  return topology;
}

}  // namespace muster
