#include "launcher/doctor/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/launcher/doctor/examined.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::vector<DoctorRow> NotWell(const Examination& examined) {
  std::vector<DoctorRow> out;
  for (DoctorRow& row : Diagnose(examined)) {
    if (row.health != Health::kWell) {
      out.push_back(std::move(row));
    }
  }
  return out;
}

TEST(Diagnose, WhereAllIsWellEachCheckSaysSoOnce) {  // D1
  for (const uint32_t nodes : {1u, 2u, 3u, 16u, 17u}) {
    const std::vector<DoctorRow> rows = Diagnose(HealthyNodes(nodes));
    std::vector<std::string> checks;
    for (const DoctorRow& row : rows) {
      EXPECT_EQ(row.health, Health::kWell) << row.check << ": " << row.seen;
      EXPECT_NE(row.seen, "");
      EXPECT_EQ(row.fix, "");
      EXPECT_THAT(checks, ::testing::Not(::testing::Contains(row.check)));
      checks.push_back(row.check);
    }
    EXPECT_EQ(checks.size(), 18u);
  }
}

struct Case {
  const char* name;
  std::function<void(Examination&)> change;  // of three healthy nodes
  Health health;
  const char* check;
  const char* where;
  const char* seen;
  const char* fix;
};

class DiagnoseTest : public testing::TestWithParam<Case> {};

TEST_P(DiagnoseTest, OneThingIsWrong) {
  const Case& wanted = GetParam();
  Examination examined = HealthyNodes(3);
  wanted.change(examined);
  const std::vector<DoctorRow> rows = NotWell(examined);
  ASSERT_EQ(rows.size(), 1u) << rows.at(1).check << ": " << rows.at(1).seen;
  EXPECT_EQ(rows[0].health, wanted.health);
  EXPECT_EQ(rows[0].check, wanted.check);
  EXPECT_EQ(rows[0].where, wanted.where);
  EXPECT_THAT(rows[0].seen, HasSubstr(wanted.seen));
  EXPECT_THAT(rows[0].fix, HasSubstr(wanted.fix));
  EXPECT_NE(rows[0].fix, "");  // D2
}

ProbeFacts& Facts(Examination& e, size_t node) { return *e.nodes.at(node).facts; }
PairResult& Pair(Examination& e, size_t node) { return e.nodes.at(node).results->pairs.at(0); }
ResolvedName& Name(Examination& e, size_t node) { return e.nodes.at(node).results->names.at(0); }

constexpr Health kBad = Health::kBad;
constexpr Health kSuspect = Health::kSuspect;

INSTANTIATE_TEST_SUITE_P(
    Network, DiagnoseTest,
    testing::Values(
        Case{"NeverFinished", [](Examination& e) { e.nodes[2].results.reset(); }, kBad, "start",
             "node2", "never told", "-v"},
        Case{"OwnNameIsLoopback",
             [](Examination& e) { Facts(e, 1).own_name.addresses = {"127.0.1.1"}; }, kBad, "names",
             "node1", "its own name node1 is 127.0.1.1", "'10.0.0.2 node1'"},
        Case{"OwnNameIsUnknown",
             [](Examination& e) {
               Facts(e, 1).own_name = {"node1", {}, "Name or service not known", 0};
             },
             kSuspect, "names", "node1", "does not resolve", "/etc/hosts of node1"},
        Case{"OwnNameIsSlow", [](Examination& e) { Facts(e, 1).own_name.took_s = 5; }, kSuspect,
             "names", "node1", "took 5.0 s", "/etc/resolv.conf"},
        Case{"OtherNameIsWrong", [](Examination& e) { Name(e, 0).addresses = {"10.9.9.9"}; }, kBad,
             "names", "node0", "node1 is 10.9.9.9 there; that node has 10.0.0.2",
             "'10.0.0.2 node1'"},
        Case{"OtherNameIsUnknown",
             [](Examination& e) {
               Name(e, 0) = {"node1", {}, "Name or service not known", 0};
             },
             kSuspect, "names", "node0", "node1 does not resolve", "in DNS"},
        Case{"OtherNameIsSlow", [](Examination& e) { Name(e, 0).took_s = 3; }, kSuspect, "names",
             "node0", "node1 took 3.0 s", "resolv.conf"},
        Case{"NoAddress",
             [](Examination& e) { Facts(e, 1).address_error = "--iface ib7: no such interface"; },
             kBad, "addresses", "node1", "no such interface", "--iface"},
        Case{"LoopbackForOthers",
             [](Examination& e) {
               Facts(e, 1).address = "127.0.0.1";
               for (PairResult& pair : e.nodes[1].results->pairs) {
                 pair.source = "127.0.0.1";
               }
             },
             kBad, "addresses", "node1", "would be told 127.0.0.1", "--iface NAME"},
        Case{"AnotherRoute", [](Examination& e) { Pair(e, 0).source = "192.168.0.1"; }, kSuspect,
             "addresses", "node0 -> node1", "goes out from 192.168.0.1", "ip route get 10.0.0.2"},
        Case{"NoPort", [](Examination& e) { Facts(e, 1).port_error = "every port is in use"; },
             kBad, "ports", "node1", "every port is in use", "--port-range"},
        Case{"EphemeralPorts",
             [](Examination& e) {
               e.ports = {40000, 40100};
               Facts(e, 0).ephemeral_high = Facts(e, 2).ephemeral_high = 39999;
             },
             kSuspect, "ports", "node1", "40000-40100", "ip_local_reserved_ports=40000-40100"},
        Case{"NoConnection",
             [](Examination& e) {
               Pair(e, 0).failed = "connect";
               Pair(e, 0).error = "No route to host";
             },
             kBad, "connections", "node0 -> node1", "10.0.0.2 port 40000: No route to host",
             "ip route get 10.0.0.2"},
        Case{"SilentConnection",
             [](Examination& e) {
               Pair(e, 2).failed = "small";
               Pair(e, 2).error = "an answer did not come in time";
             },
             kBad, "connections", "node2 -> node0", "nothing passes", "nft list ruleset"},
        Case{"LargePacketsLost",
             [](Examination& e) {
               Pair(e, 0).failed = "large";
               Pair(e, 0).error = "an answer did not come in time";
             },
             kBad, "large packets", "node0 -> node1", "small packets pass, large ones are lost",
             "mtu"},
        Case{"Slow", [](Examination& e) { Pair(e, 0).bytes_per_s = 1e6; }, kBad, "speed",
             "node0 -> node1", "1.0 MB/s", "ethtool eth0"},
        Case{"Late", [](Examination& e) { Pair(e, 0).round_trip_s = 0.01; }, kSuspect, "speed",
             "node0 -> node1", "10.0 ms", "ip route get"},
        Case{"FarTooLate", [](Examination& e) { Pair(e, 0).round_trip_s = 0.1; }, kBad, "speed",
             "node0 -> node1", "100.0 ms", "ip route get"},
        Case{"Proxy",
             [](Examination& e) {
               Facts(e, 1).proxies = {"http_proxy=http://p:3128"};
               Facts(e, 1).no_proxy = "localhost,.node0,10.0.0.1,node1,10.0.0.2";
             },
             kBad, "proxies", "node1", "http_proxy=http://p:3128",
             "-x no_proxy=localhost,.node0,10.0.0.1,node1,10.0.0.2,node2,10.0.0.3"},
        Case{"ClockAhead", [](Examination& e) { Facts(e, 1).sent_at += 7.5; }, kSuspect, "clocks",
             "node1", "7.4 s ahead", "timedatectl"},
        Case{"ClockBehind",
             [](Examination& e) {
               Facts(e, 1).sent_at -= 900;
               e.nodes[1].results->received_at -= 900;
               e.nodes[1].results->sent_at -= 900;
             },
             kBad, "clocks", "node1", "behind", "on node1: timedatectl"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Node, DiagnoseTest,
    testing::Values(
        Case{"FewFiles", [](Examination& e) { Facts(e, 1).nofile = 256; }, kBad, "limits", "node1",
             "ulimit -n is 256", "--prologue 'ulimit -n 1024'"},
        Case{"FewFilesForGood",
             [](Examination& e) { Facts(e, 1).nofile = Facts(e, 1).nofile_hard = 256; }, kBad,
             "limits", "node1", "ulimit -n is 256", "limits.conf of node1"},
        Case{"FewProcesses", [](Examination& e) { Facts(e, 1).nproc = 100; }, kBad, "limits",
             "node1", "ulimit -u is 100", "limits.conf"},
        Case{"NothingToPin",
             [](Examination& e) {
               Facts(e, 1).rdma_devices = 1;
               Facts(e, 1).memlock = 65536;
             },
             kBad, "limits", "node1", "ulimit -l is 64.0 KiB", "memlock"},
        Case{"ShortQueue", [](Examination& e) { Facts(e, 1).somaxconn = 16; }, kBad, "listen queue",
             "node1", "somaxconn is 16", "sysctl"},
        Case{"SmallSharedMemory",
             [](Examination& e) {
               Facts(e, 1).shm = {"/dev/shm", "", "", 64 << 20, 64 << 20};
             },
             kBad, "shared memory", "node1", "64.0 MiB free of 64.0 MiB", "--shm-size"},
        Case{"NoSharedMemory",
             [](Examination& e) { Facts(e, 1).shm.error = "No such file or directory"; }, kBad,
             "shared memory", "node1", "No such file", "mount -t tmpfs"},
        Case{"FullDisk", [](Examination& e) { Facts(e, 1).tmp.bytes_free = 1 << 20; }, kBad,
             "disks", "node1", "temporary folder /tmp: 1.0 MiB free", "df -h /tmp"},
        Case{"AlmostFullDisk", [](Examination& e) { Facts(e, 1).folder.bytes_free = 500 << 20; },
             kSuspect, "disks", "node1", "working folder /home/a: 500.0 MiB free", "make room"},
        Case{"NoFolder",
             [](Examination& e) { Facts(e, 1).folder.error = "No such file or directory"; }, kBad,
             "disks", "node1", "working folder /home/a: No such file", "mkdir -p /home/a"},
        Case{"FolderThatCannotBeEntered",
             [](Examination& e) {
               Facts(e, 1).user = "ann";
               Facts(e, 1).folder.error = "Permission denied";
             },
             kBad, "disks", "node1", "working folder /home/a: Permission denied",
             "let ann enter it on node1 (`namei -l /home/a`"},
        Case{"FolderOfAReadOnlyFileSystem",
             [](Examination& e) {
               Facts(e, 1).folder.write_error = "Read-only file system";
               Facts(e, 1).folder.bytes_free = 0;
             },
             kSuspect, "disks", "node1",
             "working folder /home/a cannot be written: Read-only file system",
             "if the program writes files there, name another folder: --wdir; or mount on node1"},
        Case{"FolderOfAnother",
             [](Examination& e) {
               Facts(e, 1).user = "ann";
               Facts(e, 1).folder.write_error = "Permission denied";
             },
             kSuspect, "disks", "node1", "working folder /home/a cannot be written",
             "or let ann write to it on node1: `ls -ld /home/a`"},
        Case{"TemporaryFolderOfAReadOnlyFileSystem",
             [](Examination& e) { Facts(e, 1).tmp.write_error = "Read-only file system"; }, kBad,
             "disks", "node1", "temporary folder /tmp cannot be written: Read-only file system",
             "name another folder: -x TMPDIR=FOLDER; or mount on node1"},
        Case{"SharedMemoryThatCannotBeWritten",
             [](Examination& e) { Facts(e, 1).shm.write_error = "Read-only file system"; }, kBad,
             "shared memory", "node1", "/dev/shm: Read-only file system", "mount -t tmpfs"},
        Case{"LittleMemory", [](Examination& e) { Facts(e, 1).memory_left = 1 << 20; }, kBad,
             "cgroups", "node1", "1.0 MiB more memory", "memory.max"},
        Case{"FewProcessesLeft", [](Examination& e) { Facts(e, 1).processes_left = 3; }, kBad,
             "cgroups", "node1", "3 more processes", "pids.max"},
        Case{"NarrowMask", [](Examination& e) { Facts(e, 1).cpus_mask = 1; }, kBad, "CPUs", "node1",
             "1 CPU of the 8 that are there", "taskset"},
        Case{"NarrowerThanAllocated",
             [](Examination& e) {
               Facts(e, 1).cpus_allocated = 4;
               Facts(e, 1).cpus_mask = 2;
             },
             kBad, "CPUs", "node1", "2 CPUs of the 4 that were allocated", "--cpu-bind"},
        Case{"Quota", [](Examination& e) { Facts(e, 1).cpu_quota = 1.5; }, kSuspect, "CPUs",
             "node1", "1.5 of 8 CPUs", "cpu.max"},
        Case{"GpuProcess",
             [](Examination& e) {
               Facts(e, 1).gpu_processes = {{"H100", 42, "python3", "7 MiB"}};
             },
             kBad, "GPUs", "node1", "process 42 (python3) holds 7 MiB of H100", "kill 42"},
        Case{"SickGpu",
             [](Examination& e) { Facts(e, 1).gpu_error = "nvidia-smi ended with status 9"; }, kBad,
             "GPUs", "node1", "status 9", "nvrm"},
        Case{"FewerGpus",
             [](Examination& e) { Facts(e, 0).gpus = Facts(e, 2).gpus = 8, Facts(e, 1).gpus = 7; },
             kBad, "GPUs", "", "8 on node0, node2; 7 on node1", "--exclude"},
        Case{"OlderDriver",
             [](Examination& e) {
               Facts(e, 0).gpu_driver = Facts(e, 2).gpu_driver = "550.1";
               Facts(e, 1).gpu_driver = "535.2";
             },
             kBad, "GPUs", "", "550.1 on node0, node2; 535.2 on node1", "driver"},
        Case{"OtherPython", [](Examination& e) { Facts(e, 1).python_version = "3.9.1"; }, kBad,
             "versions", "", "Python differs: 3.11.2 on node0, node2; 3.9.1 on node1",
             "PYTHON_EXEC"},
        Case{"NoTorch", [](Examination& e) { Facts(e, 1).torch_version = ""; }, kBad, "versions",
             "", "torch differs: 2.6.0 on node0, node2; none on node1", "PYTHON_EXEC"},
        Case{"OtherBuild", [](Examination& e) { Facts(e, 1).build = "0.9"; }, kBad, "versions", "",
             "muster differs", "same build"},
        Case{"SickPython",
             [](Examination& e) { Facts(e, 1).python_error = "python3 ended with status 1"; }, kBad,
             "versions", "node1", "status 1", "PYTHON_EXEC"},
        Case{"NoProgram",
             [](Examination& e) {
               Facts(e, 1).program_path = "/home/a/x.py";
               Facts(e, 1).program_error = "No such file or directory";
             },
             kBad, "program", "node1", "/home/a/x.py: No such file", "--wdir"},
        Case{"OtherProgram",
             [](Examination& e) {
               Facts(e, 0).program_hash = Facts(e, 2).program_hash = "aa";
               Facts(e, 1).program_hash = "bb";
             },
             kBad, "program", "", "aa (0 bytes) on node0, node2; bb (0 bytes) on node1",
             "copy it"}),
    [](const auto& test) { return test.param.name; });

TEST(Diagnose, AClockIsOffByWhatIsCertain) {
  Examination examined = HealthyNodes(2);
  // Ten seconds on the way, and nobody knows in which direction.
  examined.nodes[1].facts_at += 10;
  examined.nodes[1].results_at += 10;
  examined.nodes[1].results->received_at += 10;
  EXPECT_TRUE(NotWell(examined).empty());
}

TEST(Diagnose, ProxiesThatDoNotStandBetweenTheNodes) {
  for (const char* no_proxy :
       {"*", "node0,node1,10.0.0.1,10.0.0.2", "x, .node0 ,node1,*.0.0.1,10.0.0.2"}) {
    Examination examined = HealthyNodes(2);
    Facts(examined, 0).proxies = {"https_proxy=http://p"};
    Facts(examined, 0).no_proxy = no_proxy;
    EXPECT_TRUE(NotWell(examined).empty()) << no_proxy;
  }
}

TEST(Diagnose, CpusThatAStepHasAreNotCalledAllThatThereAre) {
  const auto seen = [](const Examination& examined) {
    const std::vector<DoctorRow> rows = Diagnose(examined);
    return std::find_if(rows.begin(), rows.end(),
                        [](const DoctorRow& row) { return row.check == "CPUs"; })
        ->seen;
  };
  Examination examined = HealthyNodes(2);
  EXPECT_EQ(seen(examined), "8 on node0, node1: all that are there");
  Facts(examined, 1).cpus_mask = Facts(examined, 1).cpus_allocated = 1;
  EXPECT_EQ(seen(examined), "8 on node0; 1 of 8 on node1: all that the scheduler has given");
}

TEST(Diagnose, OneMachineIsNoNetwork) {
  Examination examined = HealthyNodes(2);
  examined.several_machines = false;
  Facts(examined, 0).own_name.addresses = {"127.0.1.1"};
  Facts(examined, 0).address = "127.0.0.1";
  EXPECT_TRUE(NotWell(examined).empty());
}

TEST(Diagnose, WhatNobodyTriedIsNotCalledWell) {  // D1
  Examination examined = HealthyNodes(1);
  examined.nodes.emplace_back().name = "node1";
  examined.several_machines = true;
  std::vector<std::string> checks;
  for (const DoctorRow& row : Diagnose(examined)) {
    checks.push_back(row.check);
  }
  for (const char* const tried : {"start", "names", "clocks", "CPUs"}) {
    EXPECT_THAT(checks, ::testing::Contains(tried));
  }
  for (const char* const pairs : {"connections", "large packets", "speed"}) {
    EXPECT_THAT(checks, ::testing::Not(::testing::Contains(pairs)));
  }
}

TEST(Diagnose, AFarPairIsNotBlamedOnTheLink) {
  Examination examined = HealthyNodes(3);
  Pair(examined, 0).round_trip_s = 0.12;
  Pair(examined, 0).bytes_per_s = 10e6;
  const std::vector<DoctorRow> rows = NotWell(examined);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].seen, "a round trip takes 120.0 ms");
  EXPECT_EQ(rows[1].seen, "10.0 MB/s, in a short sample, in which round trips take their part");
  EXPECT_EQ(rows[1].fix, rows[0].fix);
}

TEST(Diagnose, APairThatNobodyHadTimeForHasNoSpeed) {
  Examination examined = HealthyNodes(3);
  Pair(examined, 0).round_trip_s = Pair(examined, 0).bytes_per_s = 0;
  EXPECT_TRUE(NotWell(examined).empty());
}

TEST(Diagnose, NothingWasHeardAtAll) {
  Examination examined;
  examined.nodes.resize(2);
  examined.nodes[0].name = "a";
  examined.nodes[1].name = "b";
  examined.several_machines = true;
  const std::vector<DoctorRow> rows = Diagnose(examined);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(NotWell(examined).size(), 2u);
  EXPECT_EQ(rows[1].where, "b");
  EXPECT_THAT(rows[1].seen, HasSubstr("nothing was heard of its probe"));
}

// Another node that looks up "localhost" finds itself, which is right.
TEST(Diagnose, WhatEachMachineCallsItselfIsNotLookedUpElsewhere) {
  for (const char* const name : {"localhost", "127.0.0.1", "::1"}) {
    Examination e = HealthyNodes(2);
    Name(e, 1).name = name;
    Name(e, 1).addresses = {"::1"};
    for (const DoctorRow& row : Diagnose(e)) {
      EXPECT_EQ(row.health, Health::kWell) << name << ": " << row.check << " " << row.seen;
    }
  }
}

}  // namespace
}  // namespace muster
