#include "agent/io/node_facts.h"

#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::HasSubstr;

// A made tree below a folder of its own, gone at the end.
class TreeTest : public testing::Test {
 protected:
  TreeTest() {
    std::string path = testing::TempDir() + "node_facts_XXXXXX";
    root_ = mkdtemp(path.data());
  }
  ~TreeTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Folder(const std::string& path) { std::filesystem::create_directories(root_ + path); }

  std::string root_;
};

CpuSet FirstCpus(uint32_t n) {
  CpuSet set;
  for (uint32_t i = 0; i < n; ++i) {
    set.Add(i);
  }
  return set;
}

class CgroupTest : public TreeTest {};

TEST_F(CgroupTest, V2QuotaIsTheTightestOfAllLevels) {
  Write("/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  Write("/sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/slurm/job_7/cpu.max", "350000 100000\n");
  Write("/sys/fs/cgroup/slurm/cpu.max", "900000 100000\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_), 3.5);
}

TEST_F(CgroupTest, V2CpusetOfTheNearestLevelThatHasOne) {
  Write("/proc/self/cgroup", "0::/job/step\n");
  Folder("/sys/fs/cgroup/job/step");
  Write("/sys/fs/cgroup/job/cpuset.cpus.effective", "2-5\n");
  Write("/sys/fs/cgroup/cpuset.cpus.effective", "0-63\n");
  EXPECT_EQ(AllowedCpus(FirstCpus(5), root_).Count(), 3u);  // 2, 3, 4
}

TEST_F(CgroupTest, V1HasAHierarchyForEachController) {
  Write("/proc/self/cgroup", "5:cpuset:/lxc/c1\n4:cpu,cpuacct:/lxc/c1\n1:name=systemd:/\n0::/\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/lxc/c1/cpu.cfs_quota_us", "250000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/lxc/c1/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpuset/lxc/c1/cpuset.effective_cpus", "0-1\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_), 2.5);
  EXPECT_EQ(AllowedCpus(FirstCpus(8), root_).Count(), 2u);
}

TEST_F(CgroupTest, V1MountedUnderTheControllersOwnName) {
  Write("/proc/self/cgroup", "4:cpu,cpuacct:/\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_), 2);
}

TEST_F(CgroupTest, AContainerSeesItsOwnCgroupAsTheRootOfTheMount) {
  Write("/proc/self/cgroup", "0::/kubepods/pod1/c1\n");  // the host's path, not below this mount
  Write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  Write("/sys/fs/cgroup/cpuset.cpus.effective", "0-3\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_), 2);
  EXPECT_EQ(AllowedCpus(FirstCpus(8), root_).Count(), 4u);
}

TEST_F(CgroupTest, HybridKeepsV2Elsewhere) {
  Write("/proc/self/cgroup", "3:memory:/x\n0::/job\n");
  Write("/sys/fs/cgroup/unified/job/cpu.max", "100000 100000\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_), 1);
}

TEST_F(CgroupTest, N2WhatIsMissingOrBrokenLimitsNothing) {
  EXPECT_DOUBLE_EQ(CpuQuota(root_), 0);
  EXPECT_EQ(AllowedCpus(FirstCpus(8), root_).Count(), 8u);
  Write("/proc/self/cgroup", "0::/job\n");
  Write("/sys/fs/cgroup/job/cpu.max", "rubbish\n");
  Write("/sys/fs/cgroup/job/cpuset.cpus.effective", "\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_), 0);
  EXPECT_EQ(AllowedCpus(FirstCpus(8), root_).Count(), 8u);
  Write("/sys/fs/cgroup/job/cpuset.cpus.effective", "100-101\n");
  EXPECT_EQ(AllowedCpus(FirstCpus(8), root_).Count(), 8u) << "nothing in common";
}

class GpuTest : public TreeTest {};

TEST_F(GpuTest, CountsDevicesAndFollowsCudaVisibleDevices) {
  EXPECT_EQ(CountGpus(root_, nullptr), 0u);
  Write("/dev/nvidiactl", "");
  Write("/dev/nvidia-uvm", "");
  for (const char* device : {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia10", "/dev/nvidia3"}) {
    Write(device, "");
  }
  EXPECT_EQ(CountGpus(root_, nullptr), 4u);
  EXPECT_EQ(CountGpus(root_, ""), 0u);
  EXPECT_EQ(CountGpus(root_, "-1"), 0u);
  EXPECT_EQ(CountGpus(root_, "NoDevFiles"), 0u);
  EXPECT_EQ(CountGpus(root_, "0,2"), 2u);
  EXPECT_EQ(CountGpus(root_, " 1 "), 1u);
  EXPECT_EQ(CountGpus(root_, "0,-1,2"), 1u) << "the list ends there";
  EXPECT_EQ(CountGpus(root_, "0,9,1"), 1u) << "there is no GPU 9";
  EXPECT_EQ(CountGpus(root_, "GPU-8932f937,MIG-1234"), 2u);
}

TEST_F(GpuTest, TheDriversListAndTheDevicesMayDiffer) {
  for (const char* bus : {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"}) {
    Folder(std::string("/proc/driver/nvidia/gpus/") + bus);
  }
  EXPECT_EQ(CountGpus(root_, nullptr), 3u) << "device files are made at first use";
  Write("/dev/nvidiactl", "");
  Write("/dev/nvidia1", "");
  EXPECT_EQ(CountGpus(root_, nullptr), 1u) << "a container with one of them";
}

TEST_F(GpuTest, CountsRdmaDevices) {
  EXPECT_EQ(CountRdmaDevices(root_), 0u);
  Folder("/sys/class/infiniband/mlx5_0");
  EXPECT_EQ(CountRdmaDevices(root_), 1u);
}

bool IsLinkLocal(const std::string& address) {
  return address.rfind("fe8", 0) == 0 || address.rfind("169.254.", 0) == 0;
}

TEST(AddressTest, ByInterface) {
  NodeQuery query;
  query.iface = "lo";
  const auto lo = ChooseAddress(query);
  ASSERT_TRUE(lo.ok()) << lo.status();
  EXPECT_EQ(lo->interface, "lo");
  EXPECT_EQ(lo->why, "--iface lo");
}

TEST(AddressTest, ByNetworkAndByAddress) {
  for (const char* iface : {"127.0.0.0/8", "127.0.0.1", "127.0.0.1/32", "0.0.0.0/0"}) {
    NodeQuery query;
    query.iface = iface;
    const auto chosen = ChooseAddress(query);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->address, "127.0.0.1") << iface;  // lo comes first
    EXPECT_EQ(chosen->interface, "lo");
  }
}

TEST(AddressTest, AnIfaceThatIsNotHereSaysWhatThereIs) {
  for (const char* iface : {"nosuch0", "203.0.113.0/30", "10.0.0.0/99", "eth0/8", "1.2.3.4/x"}) {
    NodeQuery query;
    query.iface = iface;
    const auto chosen = ChooseAddress(query);
    ASSERT_EQ(chosen.status().code(), absl::StatusCode::kInvalidArgument) << iface;
    EXPECT_THAT(std::string(chosen.status().message()), HasSubstr(iface));
  }
  NodeQuery query;
  query.iface = "nosuch0";
  EXPECT_THAT(std::string(ChooseAddress(query).status().message()), HasSubstr("lo 127.0.0.1"));
}

TEST(AddressTest, N1ALoopbackMasterDoesNotMakeThisNodeLoopback) {
  NodeQuery query;
  const auto without = ChooseAddress(query);
  query.route_to = "127.0.0.1";  // the end of a tunnel
  const auto with = ChooseAddress(query);
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(with->address, without->address);
  EXPECT_FALSE(IsLinkLocal(with->address));
}

TEST(AddressTest, TheRouteToAnOwnAddressIsThatAddress) {
  const auto own = ChooseAddress({});
  ASSERT_TRUE(own.ok());
  if (own->interface != "lo") {
    NodeQuery query;
    query.route_to = own->address;
    const auto chosen = ChooseAddress(query);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->address, own->address);
    EXPECT_EQ(chosen->interface, own->interface);
    EXPECT_EQ(chosen->why, "the route to " + own->address);
  } else {
    EXPECT_EQ(own->why, "no other interface is up");
  }
}

TEST(AddressTest, SshsAddressCountsWhereNoMasterIsNamed) {
  NodeQuery query;
  query.ssh_connection = "203.0.113.9 50022 203.0.113.7 22";
  auto chosen = ChooseAddress(query);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->address, "203.0.113.7");
  query.ssh_connection = "fe80::1%eth0 50022 fe80::2%eth0 22";
  chosen = ChooseAddress(query);
  ASSERT_TRUE(chosen.ok());
  EXPECT_FALSE(IsLinkLocal(chosen->address));
}

TEST(NodeFactsTest, OneMachineNeedsNoNetwork) {
  const auto facts = ReadNodeFacts({});
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->address, "127.0.0.1");
  EXPECT_EQ(facts->interface, "");
  EXPECT_TRUE(facts->address_is_loopback);
  EXPECT_EQ(facts->hostname, Hostname());
  EXPECT_GE(facts->cpus_usable(), 1u);
  EXPECT_LE(facts->cpus_allowed, AffinityMask().Count());
}

TEST(NodeFactsTest, WithOtherNodesAnErrorOfTheInterfaceComesThrough) {
  NodeQuery query;
  query.other_nodes = true;
  query.iface = "nosuch0";
  EXPECT_EQ(ReadNodeFacts(query).status().code(), absl::StatusCode::kInvalidArgument);
  query.iface = "lo";
  const auto facts = ReadNodeFacts(query);
  ASSERT_TRUE(facts.ok());
  EXPECT_TRUE(facts->address_is_loopback);
  EXPECT_EQ(facts->interface, "lo");
}

}  // namespace
}  // namespace muster
