// What a node costs a start: the plan (reading what the node is made of, and placing its workers),
// and the look at what may be wrong with it. Prints a line "here MS", "big MS" or "look MS" for
// each of N times; "big" is the plan of a node of 2 x 64 cores with two threads each, 8 NUMA nodes
// and 8 GPUs, made as a tree of files below FOLDER, for 128 workers.
//   plan-cost N FOLDER
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "agent/core/cpu_plan.h"
#include "agent/io/node_facts.h"
#include "agent/io/topology_reader.h"
#include "agent/probe/machine_facts.h"

namespace muster {
namespace {

constexpr uint32_t kCores = 128;
constexpr uint32_t kNumaNodes = 8;
constexpr uint32_t kGpus = 8;

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text << "\n";
}

// The CPUs of `count` cores from `first` on, first and second threads.
std::string CpusOf(uint32_t first, uint32_t count) {
  const auto range = [count](uint32_t from) {
    return count == 1 ? absl::StrCat(from) : absl::StrCat(from, "-", from + count - 1);
  };
  return absl::StrCat(range(first), ",", range(kCores + first));
}

void MakeBigNode(const std::string& root) {
  const std::string system = absl::StrCat(root, "/sys/devices/system");
  Write(absl::StrCat(system, "/cpu/online"), absl::StrCat("0-", 2 * kCores - 1));
  for (uint32_t cpu = 0; cpu < 2 * kCores; ++cpu) {
    const uint32_t core = cpu % kCores;
    const std::string folder = absl::StrCat(system, "/cpu/cpu", cpu);
    Write(absl::StrCat(folder, "/topology/core_cpus_list"), CpusOf(core, 1));
    Write(absl::StrCat(folder, "/topology/package_cpus_list"),
          CpusOf(core / (kCores / 2) * (kCores / 2), kCores / 2));
    Write(absl::StrCat(folder, "/cache/index3/shared_cpu_list"), CpusOf(core / 8 * 8, 8));
  }
  constexpr uint32_t kOfNode = kCores / kNumaNodes;
  for (uint32_t node = 0; node < kNumaNodes; ++node) {
    Write(absl::StrCat(system, "/node/node", node, "/cpulist"), CpusOf(node * kOfNode, kOfNode));
  }
}

// One near each NUMA node. Their files are left out: they are eight of a thousand.
void AddGpus(Topology& topology) {
  for (uint32_t gpu = 0; gpu < kGpus; ++gpu) {
    TopologyDevice device;
    device.name = absl::StrCat("gpu", gpu);
    for (const TopologyCore& core : topology.cores) {
      if (core.numa == gpu % kNumaNodes) {
        device.near.Unite(core.cpus);
      }
    }
    topology.gpus.push_back(std::move(device));
  }
}

// False: there is no plan.
bool Measure(const char* name, const CpuSet& allowed, uint32_t workers, uint32_t cores,
             const std::string& root) {
  const auto begin = std::chrono::steady_clock::now();
  Topology topology = ReadTopology(allowed, nullptr, root);
  if (!root.empty()) {
    AddGpus(topology);
  }
  const absl::StatusOr<CpuPlan> plan = PlanCpus(topology, allowed, workers, {});
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (!plan.ok() || (cores > 0 && topology.cores.size() != cores)) {
    std::fprintf(stderr, "%s: %zu cores, %s\n", name, topology.cores.size(),
                 plan.status().ToString().c_str());
    return false;
  }
  std::printf("%s %.4f\n", name, took.count());
  return true;
}

// What of it is bad is this machine's, and of no matter here.
void MeasureLook(const NodeFacts& node) {
  const auto begin = std::chrono::steady_clock::now();
  const size_t doubts = DoubtsOfNode(node, {RLIM_INFINITY, RLIM_INFINITY}, [](const char* name) {
                          return std::getenv(name);
                        }).size();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("look %.4f of %zu\n", took.count(), doubts);
}

int Main(int argc, char** argv) {
  int times = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[1], &times)) {
    std::fprintf(stderr, "usage: plan-cost N FOLDER\n");
    return 2;
  }
  const std::string root = argv[2];
  MakeBigNode(root);
  CpuSet big;
  for (uint32_t cpu = 0; cpu < 2 * kCores; ++cpu) {
    big.Add(cpu);
  }
  const CpuSet here = AffinityMask();
  NodeFacts node;
  node.hostname = "localhost";
  node.cpus = here;
  for (int i = 0; i < times; ++i) {
    if (!Measure("here", here, here.Count(), 0, "") || !Measure("big", big, kCores, kCores, root)) {
      return 1;
    }
    MeasureLook(node);
  }
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::Main(argc, argv); }
