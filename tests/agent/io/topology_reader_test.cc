#include "agent/io/topology_reader.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/node_facts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A made tree below a folder of its own, gone at the end.
class TopologyReaderTest : public testing::Test {
 protected:
  TopologyReaderTest() {
    std::string path = testing::TempDir() + "topology_XXXXXX";
    root_ = mkdtemp(path.data());
  }
  ~TopologyReaderTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void Cpu(uint32_t cpu, const std::string& file, const std::string& text) {
    Write(absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/", file), text);
  }
  // Of one CPU: those of its core, of its package, and those that share its L3 cache.
  void Cpu(uint32_t cpu, const std::string& core, const std::string& package,
           const std::string& l3) {
    Cpu(cpu, "topology/core_cpus_list", core);
    Cpu(cpu, "topology/package_cpus_list", package);
    Cpu(cpu, "cache/index3/shared_cpu_list", l3);
  }
  void Online(const std::string& list) { Write("/sys/devices/system/cpu/online", list); }
  void Numa(uint32_t number, const std::string& list) {
    Write(absl::StrCat("/sys/devices/system/node/node", number, "/cpulist"), list);
  }
  Topology Read(const std::string& known = "0", const char* cuda_visible = nullptr) {
    return ReadTopology(*ParseCpuList(known), cuda_visible, root_);
  }
  // "CPUs package numa l3" of each core.
  static std::vector<std::string> Cores(const Topology& topology) {
    std::vector<std::string> out;
    for (const TopologyCore& core : topology.cores) {
      out.push_back(
          absl::StrCat(core.cpus.Text(), " ", core.package, " ", core.numa, " ", core.l3));
    }
    return out;
  }

  std::string root_;
};

TEST_F(TopologyReaderTest, TwoPackagesWithThreads) {
  Online("0-7");
  for (uint32_t cpu = 0; cpu < 8; ++cpu) {
    const uint32_t core = cpu % 4;
    Cpu(cpu, absl::StrCat(core, ",", core + 4), core < 2 ? "0-1,4-5" : "2-3,6-7",
        core < 2 ? "0-1,4-5" : "2-3,6-7");
  }
  Numa(0, "0-1,4-5");
  Numa(8, "2-3,6-7");
  Numa(9, "");  // memory alone
  const Topology topology = Read();
  EXPECT_THAT(Cores(topology), ElementsAre("0,4 0 0 0", "1,5 0 0 0", "2,6 1 1 1", "3,7 1 1 1"));
  EXPECT_THAT(topology.numa_nodes, ElementsAre(0, 8));
}

TEST_F(TopologyReaderTest, SeveralCachesAndNumaNodesInAPackage) {
  Online("0-7");
  for (uint32_t cpu = 0; cpu < 8; ++cpu) {
    const uint32_t first = cpu / 2 * 2;
    Cpu(cpu, absl::StrCat(cpu), "0-7", absl::StrCat(first, "-", first + 1));
  }
  Numa(0, "0-3");
  Numa(1, "4-7");
  EXPECT_THAT(Cores(Read()), ElementsAre("0 0 0 0", "1 0 0 0", "2 0 0 1", "3 0 0 1", "4 0 1 2",
                                         "5 0 1 2", "6 0 1 3", "7 0 1 3"));
}

TEST_F(TopologyReaderTest, TheNamesOfOlderKernels) {
  Online("0-3");
  for (uint32_t cpu = 0; cpu < 4; ++cpu) {
    Cpu(cpu, "topology/thread_siblings_list", cpu < 2 ? "0-1" : "2-3");
    Cpu(cpu, "topology/core_siblings_list", "0-3");
  }
  EXPECT_THAT(Cores(Read()), ElementsAre("0-1 0 0 0", "2-3 0 0 0"));
}

TEST_F(TopologyReaderTest, CpusThatAreOffline) {
  Online("0,3");
  Cpu(0, "0-1", "0-3", "0-3");
  Cpu(3, "2-3", "0-3", "0-3");
  EXPECT_THAT(Cores(Read()), ElementsAre("0 0 0 0", "3 0 0 0"));
}

TEST_F(TopologyReaderTest, EveryCpuThatMayBeUsedIsThereWhateverIsMissing_R1) {
  EXPECT_THAT(Cores(Read("2-3")), ElementsAre("2 0 0 0", "3 0 0 0"));
  EXPECT_THAT(Read("2-3").numa_nodes, IsEmpty());
  Online("rubbish");
  Numa(0, "rubbish");
  Cpu(2, "rubbish", "rubbish", "rubbish");
  EXPECT_THAT(Cores(Read("2-3")), ElementsAre("2 0 0 0", "3 0 0 0"));
  Cpu(2, "7", "7", "7");  // not its own
  EXPECT_THAT(Cores(Read("2-3")), ElementsAre("2 0 0 0", "3 0 0 0"));
}

std::vector<uint32_t> Speeds(const Topology& topology) {
  std::vector<uint32_t> out;
  for (const TopologyCore& core : topology.cores) {
    out.push_back(core.speed);
  }
  return out;
}

TEST_F(TopologyReaderTest, CoresOfSeveralKinds) {
  Online("0-3");
  EXPECT_THAT(Speeds(Read()), ElementsAre(0, 0, 0, 0));
  for (uint32_t cpu = 0; cpu < 4; ++cpu) {  // of ARM
    Cpu(cpu, "cpu_capacity", cpu < 2 ? "446" : "1024");
  }
  EXPECT_THAT(Speeds(Read()), ElementsAre(446, 446, 1024, 1024));
  Write("/sys/devices/cpu_core/cpus", "0-1");  // of Intel
  EXPECT_THAT(Speeds(Read()), ElementsAre(1, 1, 0, 0));
}

class DevicesTest : public TopologyReaderTest {
 protected:
  DevicesTest() {
    Gpu("0000:17:00.0", "GPU-aaaa-1", "0-1");
    Gpu("0000:b1:00.0", "GPU-bbbb-2", "2-3");
  }
  void Gpu(const std::string& address, const std::string& uuid, const std::string& cpus) {
    Write(absl::StrCat("/proc/driver/nvidia/gpus/", address, "/information"),
          absl::StrCat("Model: \t\t H100\nGPU UUID: \t ", uuid, "\nBus Type: \t PCIe"));
    Write(absl::StrCat("/sys/bus/pci/devices/", address, "/local_cpulist"), cpus);
  }
  // "uuid near" of each.
  std::vector<std::string> Gpus(const char* cuda_visible = nullptr) {
    std::vector<std::string> out;
    for (const TopologyDevice& gpu : Read("0", cuda_visible).gpus) {
      out.push_back(absl::StrCat(gpu.uuid, " ", gpu.near.Text()));
    }
    return out;
  }
};

TEST_F(DevicesTest, GpusAsCudaShowsThem) {
  EXPECT_THAT(Gpus(), ElementsAre("GPU-aaaa-1 0-1", "GPU-bbbb-2 2-3"));
  EXPECT_THAT(Gpus("1, 0"), ElementsAre("GPU-bbbb-2 2-3", "GPU-aaaa-1 0-1"));
  EXPECT_THAT(Gpus("GPU-bb,MIG-cc"), ElementsAre("GPU-bbbb-2 2-3", "MIG-cc "));
  EXPECT_THAT(Gpus("0,7,1"), ElementsAre("GPU-aaaa-1 0-1"));
  EXPECT_THAT(Gpus(""), IsEmpty());
}

TEST_F(DevicesTest, OfAContainerWithSomeGpusNobodyKnowsWhere) {
  Write("/dev/nvidiactl", "");
  Write("/dev/nvidia1", "");
  EXPECT_THAT(Gpus(), ElementsAre(" "));
}

TEST_F(DevicesTest, RdmaDevices) {
  Write("/sys/class/infiniband/mlx5_1/device/local_cpulist", "2-3");
  Write("/sys/class/infiniband/mlx5_0/device/local_cpulist", "0-1");
  const Topology topology = Read();
  ASSERT_EQ(topology.nics.size(), 2u);
  EXPECT_EQ(topology.nics[0].name, "mlx5_0");
  EXPECT_EQ(topology.nics[1].near.Text(), "2-3");
}

// hwloc reads the same files in another way.
TEST(ThisMachineTest, IsAsHwlocHasIt) {
  setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);  // they take long, and add nothing to cores
  hwloc_topology_t theirs;
  ASSERT_EQ(hwloc_topology_init(&theirs), 0);
  ASSERT_EQ(hwloc_topology_load(theirs), 0);
  const Topology ours = ReadTopology(AffinityMask());
  EXPECT_EQ(ours.cores.size(),
            static_cast<size_t>(hwloc_get_nbobjs_by_type(theirs, HWLOC_OBJ_CORE)));
  EXPECT_EQ(ours.cores.back().package + 1,
            static_cast<uint32_t>(hwloc_get_nbobjs_by_type(theirs, HWLOC_OBJ_PACKAGE)));
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(theirs, HWLOC_OBJ_CORE, core)) != nullptr;) {
    CpuSet cpus;
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(core->cpuset, cpu)) {
      cpus.Add(static_cast<uint32_t>(cpu));
    }
    EXPECT_TRUE(std::any_of(ours.cores.begin(), ours.cores.end(), [&](const TopologyCore& own) {
      return own.cpus == cpus;
    })) << cpus.Text();
  }
  hwloc_topology_destroy(theirs);
}

}  // namespace
}  // namespace muster
