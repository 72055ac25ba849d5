#include "agent/probe/machine_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// A machine's files in a folder of its own.
class Root {
 public:
  Root() : path_(absl::StrCat(testing::TempDir(), "/probe-root-", getpid())) {}
  ~Root() { std::filesystem::remove_all(path_); }
  void Write(const std::string& file, const std::string& text) const {
    const std::filesystem::path whole = path_ + file;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(LeftOf, LimitsOfBothCgroupVersions) {
  EXPECT_EQ(LeftOf("100\n", "30\n"), 70u);
  EXPECT_EQ(LeftOf("100\n", "300\n"), 0u);
  EXPECT_EQ(LeftOf("100\n", ""), 100u);
  EXPECT_EQ(LeftOf("max\n", "30\n"), kUnlimited);
  EXPECT_EQ(LeftOf("", ""), kUnlimited);
  EXPECT_EQ(LeftOf("9223372036854771712\n", "30\n"), kUnlimited);  // v1: no limit
}

TEST(LimitFacts, OfCgroupV2AndV1) {
  const Root root;
  root.Write("/proc/self/cgroup", "0::/job\n");
  root.Write("/sys/fs/cgroup/job/memory.max", "1000\n");
  root.Write("/sys/fs/cgroup/job/memory.current", "400\n");
  root.Write("/sys/fs/cgroup/job/pids.max", "max\n");
  ProbeFacts facts;
  ReadLimitFacts(root.path(), facts);
  EXPECT_EQ(facts.memory_left, 600u);
  EXPECT_EQ(facts.processes_left, kUnlimited);
  EXPECT_GT(facts.nofile, 0u);

  root.Write("/proc/self/cgroup", "4:memory:/a\n3:pids:/b\n");
  root.Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000\n");
  root.Write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "500\n");
  root.Write("/sys/fs/cgroup/pids/pids.max", "64\n");  // a container's own group at the root
  root.Write("/sys/fs/cgroup/pids/pids.current", "4\n");
  ReadLimitFacts(root.path(), facts);
  EXPECT_EQ(facts.memory_left, 1500u);
  EXPECT_EQ(facts.processes_left, 60u);
}

TEST(NetworkFacts, FilesOfTheKernelAndProxies) {
  const Root root;
  root.Write("/proc/sys/net/core/somaxconn", "128\n");
  root.Write("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
  const std::map<std::string, const char*> variables = {
      {"https_proxy", "http://proxy:3128"}, {"HTTP_PROXY", ""}, {"no_proxy", "localhost"}};
  ProbeFacts facts;
  ReadNetworkFacts(
      root.path(),
      [&](const char* name) {
        const auto it = variables.find(name);
        return it == variables.end() ? nullptr : it->second;
      },
      facts);
  EXPECT_EQ(facts.somaxconn, 128u);
  EXPECT_EQ(facts.ephemeral_low, 32768);
  EXPECT_EQ(facts.ephemeral_high, 60999);
  EXPECT_EQ(facts.proxies, std::vector<std::string>{"https_proxy=http://proxy:3128"});
  EXPECT_EQ(facts.no_proxy, "localhost");
}

TEST(HostsFile, AddressesOfAName) {
  constexpr char kText[] =
      "127.0.0.1\tlocalhost\n"
      "127.0.1.1 node1.example node1  # set by the installer\n"
      "# 10.0.0.9 node1\n"
      "\n"
      "10.0.0.2 node10 node1";
  EXPECT_EQ(HostsFileAddresses(kText, "node1"),
            (std::vector<std::string>{"127.0.1.1", "10.0.0.2"}));
  EXPECT_TRUE(HostsFileAddresses(kText, "127.0.1.1").empty());
  EXPECT_TRUE(HostsFileAddresses("", "node1").empty());
}

TEST(QuickFacts, OfThisMachine) {
  NodeFacts node;
  node.hostname = "node1";
  node.address = "10.0.0.2";
  const ProbeFacts facts =
      ReadQuickFacts(node, {300, 4000}, [](const char*) -> const char* { return nullptr; });
  EXPECT_EQ(facts.nofile, 300u);
  EXPECT_EQ(facts.nofile_hard, 4000u);
  EXPECT_EQ(facts.own_name.name, "node1");
  EXPECT_GT(facts.cpus_mask, 0u);
  EXPECT_TRUE(facts.proxies.empty());
}

TEST(CpuFacts, WhatASchedulerHasGiven) {
  const Root root;
  ProbeFacts facts;
  setenv("SLURM_CPUS_ON_NODE", "8", 1);
  ReadCpuFacts(root.path(), facts);
  unsetenv("SLURM_CPUS_ON_NODE");
  EXPECT_EQ(facts.cpus_allocated, 8u);
  EXPECT_GE(facts.cpus_here, facts.cpus_mask);
}

TEST(DiskFacts, RoomOrWhatIsWrong) {
  const Root root;
  root.Write("/file", "");
  EXPECT_GT(ReadDiskFacts(root.path()).bytes_total, 0u);
  EXPECT_EQ(ReadDiskFacts(root.path()).error, "");
  EXPECT_EQ(ReadDiskFacts(root.path()).write_error, "");
  EXPECT_EQ(ReadDiskFacts(root.path() + "/none").error, "No such file or directory");
  EXPECT_NE(ReadDiskFacts(root.path() + "/file").error, "") << "no folder";
}

}  // namespace
}  // namespace muster
