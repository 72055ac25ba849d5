#include "agent/core/cpu_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/limits.h"
#include "tests/agent/core/machines.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Node {
  const char* name;
  Topology topology;
  CpuSet allowed;
};

CpuSet Without(const Topology& topology, const std::vector<uint32_t>& cpus) {
  CpuSet out;
  for (const uint32_t cpu : AllCpus(topology).Members()) {
    if (std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) {
      out.Add(cpu);
    }
  }
  return out;
}

Topology WithoutNuma(Topology topology) {
  topology.numa_nodes.clear();
  return topology;
}

std::vector<Node> Nodes() {
  std::vector<Node> out;
  const auto add = [&](const char* name, const Topology& topology, const CpuSet& allowed) {
    out.push_back({name, topology, allowed});
  };
  const auto whole = [&](const char* name, const Topology& topology) {
    add(name, topology, AllCpus(topology));
  };
  const Topology desktop = Machine({1, 1, 1, 8, 2});
  const Topology two = Machine({2, 1, 1, 16, 2});
  const Topology epyc = Machine({2, 4, 2, 8, 2});
  whole("OneCore", Machine({}));
  whole("TwoCores", Machine({1, 1, 1, 2, 1}));
  whole("DesktopWithThreads", desktop);
  whole("Hybrid", HybridMachine());
  whole("TwoSockets", two);
  whole("EightNumaNodes", epyc);
  whole("SmallCaches", Machine({1, 1, 8, 3, 2}));
  whole("ArmClusters", Machine({1, 1, 4, 4, 1}));
  whole("FourThreadsACore", Machine({2, 1, 1, 10, 4}));
  whole("NoNumaInformation", WithoutNuma(Machine({1, 1, 1, 12, 1})));
  whole("GpusOfOnePackage", WithGpus(two, {0, 0, 0, 0, 1, 1, 1, 1}));
  whole("AGpuForEachNumaNode", WithGpus(epyc, {0, 1, 2, 3, 4, 5, 6, 7}));
  add("FewCoresNearTheGpus", WithGpus(two, {0, 0, 0, 0, 1, 1, 1, 1}), CpusFrom(14, 18));
  add("OneCpuOfMany", two, CpusFrom(5, 1));
  add("OfflineCpus", desktop, Without(desktop, {1, 2, 9, 10}));
  add("SecondThreadsMissing", desktop, CpusFrom(0, 8));
  add("CpusetOfUnequalNodes", two, CpusFrom(10, 9));
  add("CpusetInFiveNumaNodes", epyc, CpusFrom(7, 60));
  return out;
}

uint32_t UsableCoresOf(const Node& node) {
  return static_cast<uint32_t>(
      std::count_if(node.topology.cores.begin(), node.topology.cores.end(), [&](TopologyCore core) {
        core.cpus.Intersect(node.allowed);
        return !core.cpus.empty();
      }));
}

bool Within(CpuSet inner, const CpuSet& outer) {
  const CpuSet before = inner;
  inner.Intersect(outer);
  return inner == before;
}

std::vector<CpuSet> CpusOf(const CpuPlan& plan) {
  std::vector<CpuSet> out;
  for (const WorkerShare& share : plan.workers) {
    out.push_back(share.cpus);
  }
  return out;
}

CpuPlan PlanFor(const Topology& topology, const CpuSet& allowed, uint32_t workers,
                const CpuBinding& binding = {}) {
  const absl::StatusOr<CpuPlan> plan = PlanCpus(topology, allowed, workers, binding);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(CpuPlan());
}

std::vector<std::string> Texts(const Topology& topology, uint32_t workers,
                               const CpuBinding& binding = {}) {
  std::vector<std::string> out;
  for (const CpuSet& cpus : CpusOf(PlanFor(topology, AllCpus(topology), workers, binding))) {
    out.push_back(cpus.Text());
  }
  return out;
}

std::string Error(const Topology& topology, uint32_t workers, const CpuBinding& binding) {
  const absl::StatusOr<CpuPlan> plan = PlanCpus(topology, AllCpus(topology), workers, binding);
  return std::string(plan.status().message());
}

CpuBinding To(BindTo bind_to, MapBy map_by = MapBy::kAuto) {
  CpuBinding out;
  out.bind_to = bind_to;
  out.map_by = map_by;
  return out;
}

class AutoTest : public testing::TestWithParam<Node> {};

INSTANTIATE_TEST_SUITE_P(Nodes, AutoTest, testing::ValuesIn(Nodes()),
                         [](const auto& node) { return std::string(node.param.name); });

TEST_P(AutoTest, EveryWorkerHasAllowedCpus_P1) {
  for (uint32_t workers = 1; workers <= 140; ++workers) {
    for (const CpuSet& cpus : CpusOf(PlanFor(GetParam().topology, GetParam().allowed, workers))) {
      ASSERT_FALSE(cpus.empty()) << workers;
      ASSERT_TRUE(Within(cpus, GetParam().allowed)) << workers << ": " << cpus.Text();
    }
  }
}

TEST_P(AutoTest, WorkersShareNothingWhileThereIsACoreForEach_P2) {
  for (uint32_t workers = 1; workers <= UsableCoresOf(GetParam()); ++workers) {
    const CpuPlan plan = PlanFor(GetParam().topology, GetParam().allowed, workers);
    CpuSet taken;
    uint32_t sum = 0;
    for (const WorkerShare& share : plan.workers) {
      taken.Unite(share.cpus);
      sum += share.cpus.Count();
      ASSERT_EQ(share.sharers, 1u) << workers;
    }
    ASSERT_EQ(taken.Count(), sum) << workers;
  }
}

// The places of the NUMA nodes that a worker's CPUs are of.
std::vector<uint32_t> NumaOf(const Topology& topology, const WorkerShare& share) {
  std::vector<uint32_t> out;
  for (TopologyCore core : topology.cores) {
    core.cpus.Intersect(share.cpus);
    if (!core.cpus.empty() && (out.empty() || out.back() != core.numa)) {
      out.push_back(core.numa);
    }
  }
  return out;
}

TEST_P(AutoTest, LoadsAreEven_P3) {
  const Topology& topology = GetParam().topology;
  std::map<uint32_t, uint32_t> cores_of;
  for (TopologyCore core : topology.cores) {
    core.cpus.Intersect(GetParam().allowed);
    cores_of[core.numa] += core.cpus.empty() ? 0 : 1;
  }
  const uint32_t cores = UsableCoresOf(GetParam());
  for (uint32_t workers = 1; workers <= 140; ++workers) {
    const CpuPlan plan = PlanFor(topology, GetParam().allowed, workers);
    std::map<uint32_t, std::vector<uint32_t>> sizes;
    for (const WorkerShare& share : plan.workers) {
      const std::vector<uint32_t> numa = NumaOf(topology, share);
      if (numa.size() == 1) {
        sizes[numa[0]].push_back(share.cores);
      }
    }
    const bool near_gpus = workers <= topology.gpus.size();
    for (const auto& [numa, of] : sizes) {
      if (near_gpus) {
        continue;  // they are where their GPUs are
      }
      const auto [least, most] = std::minmax_element(of.begin(), of.end());
      ASSERT_LE(*most - *least, 1u) << workers;
      const double asked = static_cast<double>(workers) * cores_of[numa] / cores;
      ASSERT_LE(std::abs(static_cast<double>(of.size()) - asked), 1) << workers;
    }
  }
}

TEST_P(AutoTest, NoCoreIsIdleWhileOthersAreShared_P4) {
  const uint32_t cores = UsableCoresOf(GetParam());
  for (uint32_t workers = cores + 1; workers <= cores + 40; ++workers) {
    CpuSet taken;
    for (const CpuSet& cpus : CpusOf(PlanFor(GetParam().topology, GetParam().allowed, workers))) {
      taken.Unite(cpus);
    }
    ASSERT_EQ(taken, GetParam().allowed) << workers;
  }
}

TEST_P(AutoTest, WhereCoresAreSharedEachMayUseAllOfItsNumaNode_P4) {
  const Topology& topology = GetParam().topology;
  const uint32_t cores = UsableCoresOf(GetParam());
  for (const uint32_t workers : {cores + 1, cores + 2, 2 * cores, 2 * cores + 1}) {
    for (const WorkerShare& share : PlanFor(topology, GetParam().allowed, workers).workers) {
      const std::vector<uint32_t> numa = NumaOf(topology, share);
      ASSERT_EQ(numa.size(), 1u) << workers;
      CpuSet whole;
      for (const TopologyCore& core : topology.cores) {
        if (core.numa == numa[0]) {
          whole.Unite(core.cpus);
        }
      }
      whole.Intersect(GetParam().allowed);
      ASSERT_EQ(share.cpus, whole) << workers;
    }
  }
}

TEST_P(AutoTest, MemoryIsThatOfItsCpus_P5) {
  for (const uint32_t workers : {1u, 2u, 3u, 8u, 32u, 130u}) {
    for (const WorkerShare& share :
         PlanFor(GetParam().topology, GetParam().allowed, workers).workers) {
      std::vector<uint32_t> want;
      for (const uint32_t numa : NumaOf(GetParam().topology, share)) {
        if (!GetParam().topology.numa_nodes.empty()) {
          want.push_back(GetParam().topology.numa_nodes[numa]);
        }
      }
      ASSERT_EQ(share.memory, want) << workers;
    }
  }
}

TEST_P(AutoTest, TheSameInputGivesTheSamePlan) {
  for (const uint32_t workers : {1u, 3u, 32u}) {
    EXPECT_EQ(CpusOf(PlanFor(GetParam().topology, GetParam().allowed, workers)),
              CpusOf(PlanFor(GetParam().topology, GetParam().allowed, workers)));
  }
}

TEST(CpuPlanTest, SharesAreWholeCoresInOrder) {
  EXPECT_THAT(Texts(Machine({1, 1, 1, 8, 2}), 4),
              ElementsAre("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"));
  EXPECT_THAT(Texts(Machine({1, 1, 1, 5, 1}), 3), ElementsAre("0-1", "2-3", "4"));
}

TEST(CpuPlanTest, NoShareReachesIntoTheNextNumaNode) {
  EXPECT_THAT(Texts(Machine({2, 1, 1, 8, 1}), 3), ElementsAre("0-7", "8-11", "12-15"));
}

TEST(CpuPlanTest, FewWorkersGetWholeNumaNodes) {
  EXPECT_THAT(Texts(Machine({2, 4, 1, 4, 1}), 2), ElementsAre("0-15", "16-31"));
}

TEST(CpuPlanTest, MoreWorkersThanCoresShareTheirNumaNode) {
  EXPECT_THAT(Texts(Machine({2, 1, 1, 2, 1}), 6),
              ElementsAre("0-1", "0-1", "0-1", "2-3", "2-3", "2-3"));
  EXPECT_EQ(PlanFor(Machine({2, 1, 1, 2, 1}), CpusFrom(0, 4), 6).workers[0].sharers, 3u);
}

TEST(CpuPlanTest, FastAndSlowCoresAreDealtOutAlike) {
  EXPECT_THAT(Texts(HybridMachine(), 4),
              ElementsAre("0-3,16-17", "4-7,18-19", "8-11,20-21", "12-15,22-23"));
  // More workers than fast cores: those who have none are not without a slow one.
  const std::vector<std::string> twelve = Texts(HybridMachine(), 12);
  EXPECT_EQ(twelve[0], "0-1,16");
  EXPECT_EQ(twelve[8], "20");
}

TEST(CpuPlanTest, AWorkerIsNearItsGpu) {
  const Topology node = WithGpus(Machine({2, 1, 1, 4, 1}), {1, 1, 0, 0});
  EXPECT_THAT(Texts(node, 4), ElementsAre("4-5", "6-7", "0-1", "2-3"));
  EXPECT_THAT(Texts(node, 2), ElementsAre("4-5", "6-7"));
  EXPECT_THAT(PlanFor(node, AllCpus(node), 2).workers[1].gpus, ElementsAre(1));
  EXPECT_THAT(Texts(node, 8), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7"))
      << "more workers than GPUs: no GPU is anybody's";
}

TEST(CpuPlanTest, NobodySharesACoreToBeNearAGpuWhileOthersAreIdle) {
  const Topology node = WithGpus(Machine({2, 1, 1, 4, 1}), {0, 0, 0, 0, 1, 1});
  CpuSet allowed = CpusFrom(3, 5);  // one core near the first four GPUs
  EXPECT_THAT(CpusOf(PlanFor(node, allowed, 4)),
              ElementsAre(CpusFrom(3, 1), CpusFrom(4, 2), CpusFrom(6, 1), CpusFrom(7, 1)));
  EXPECT_THAT(CpusOf(PlanFor(node, allowed, 4, To(BindTo::kCore))),
              ElementsAre(CpusFrom(3, 1), CpusFrom(4, 1), CpusFrom(5, 1), CpusFrom(6, 1)));
  EXPECT_EQ(PlanFor(node, allowed, 4, To(BindTo::kAuto, MapBy::kGpu)).workers[3].sharers, 4u)
      << "it is asked for";
}

TEST(CpuPlanTest, GpusFollowAPlaceOfOnesOwnChoice) {
  const Topology node = WithGpus(Machine({2, 1, 1, 4, 1}), {0, 0, 1, 1});
  const auto gpus = [&](const CpuBinding& binding, uint32_t workers) {
    std::vector<uint32_t> out;
    for (const WorkerShare& share : PlanFor(node, AllCpus(node), workers, binding).workers) {
      out.insert(out.end(), share.gpus.begin(), share.gpus.end());
    }
    return out;
  };
  CpuBinding by_turns = To(BindTo::kAuto, MapBy::kNuma);
  EXPECT_THAT(gpus(by_turns, 4), ElementsAre(0, 1, 2, 3)) << "programs choose by local rank";
  by_turns.gpu_mode = GpuMode::kOne;
  EXPECT_THAT(gpus(by_turns, 4), ElementsAre(0, 2, 1, 3));
  by_turns.bind_to = BindTo::kCore;
  EXPECT_THAT(gpus(by_turns, 3), ElementsAre(0, 2, 1));
  by_turns.gpus_per_worker = 2;
  EXPECT_THAT(gpus(by_turns, 2), ElementsAre(0, 1, 2, 3));
}

TEST(CpuPlanTest, EachGetsSoManyGpusOrAnErrorSaysWhyNot) {
  CpuBinding binding;
  binding.gpus_per_worker = 2;
  const Topology node = WithGpus(Machine({2, 1, 1, 4, 1}), {0, 0, 1, 1});
  const CpuPlan plan = PlanFor(node, AllCpus(node), 2, binding);
  EXPECT_THAT(plan.workers[0].gpus, ElementsAre(0, 1));
  EXPECT_THAT(plan.workers[1].gpus, ElementsAre(2, 3));
  EXPECT_THAT(Error(node, 3, binding), AllOf(HasSubstr("--gpus-per-proc 2 for each of 3 workers"),
                                             HasSubstr("has 4"), HasSubstr("run 2 workers")));
  EXPECT_THAT(Error(Machine({}), 1, To(BindTo::kAuto, MapBy::kGpu)), HasSubstr("--map-by gpu"));
  binding.gpu_mode = GpuMode::kOneIfEnough;  // nobody has asked
  EXPECT_THAT(PlanFor(node, AllCpus(node), 2, binding).workers[1].gpus, ElementsAre(2, 3));
  EXPECT_THAT(PlanFor(node, AllCpus(node), 3, binding).workers[0].gpus, ElementsAre());
}

TEST(CpuPlanTest, BindsToWhatIsNamed) {
  const Topology node = Machine({2, 1, 2, 2, 2});  // cores 0-7, their second threads 8-15
  EXPECT_THAT(Texts(node, 2, To(BindTo::kHwthread)), ElementsAre("0", "8"));
  EXPECT_THAT(Texts(node, 3, To(BindTo::kCore)), ElementsAre("0,8", "1,9", "2,10"));
  EXPECT_THAT(Texts(node, 2, To(BindTo::kPackage)), ElementsAre("0-3,8-11", "4-7,12-15"));
  EXPECT_THAT(Texts(node, 4, To(BindTo::kL3Cache)),
              ElementsAre("0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"));
  EXPECT_THAT(Texts(node, 3, To(BindTo::kNone)), ElementsAre("0-15", "0-15", "0-15"));
}

TEST(CpuPlanTest, MapsInTurn) {
  const Topology node = Machine({2, 1, 1, 4, 1});
  EXPECT_THAT(Texts(node, 4, To(BindTo::kCore, MapBy::kNuma)), ElementsAre("0", "4", "1", "5"));
  EXPECT_THAT(Texts(node, 3, To(BindTo::kNuma, MapBy::kNuma)), ElementsAre("0-3", "4-7", "0-3"));
  EXPECT_THAT(Texts(node, 3, To(BindTo::kAuto, MapBy::kPackage)), ElementsAre("0-1", "4-7", "2-3"));
}

TEST(CpuPlanTest, SoManyToAnObject) {
  CpuBinding binding = To(BindTo::kAuto, MapBy::kNuma);
  binding.workers_per_object = 2;
  const Topology node = Machine({2, 1, 1, 4, 1});
  EXPECT_THAT(Texts(node, 3, binding), ElementsAre("0-1", "2-3", "4-7"));
  const CpuPlan cores = PlanFor(node, AllCpus(node), 3, [&] {
    CpuBinding of_cores = binding;
    of_cores.map_by = MapBy::kCore;
    return of_cores;
  }());
  EXPECT_THAT(CpusOf(cores), ElementsAre(CpusFrom(0, 1), CpusFrom(0, 1), CpusFrom(1, 1)));
  EXPECT_THAT(Error(node, 5, binding),
              AllOf(HasSubstr("ppr:2"), HasSubstr("5 workers want 3"), HasSubstr("may use 2")));
}

TEST(CpuPlanTest, SoManyToAnObjectAreSoManyWorkers) {
  const Topology node = Machine({2, 2, 1, 4, 2});
  CpuSet allowed = AllCpus(node);
  const auto places = [&](MapBy map_by, uint32_t each) {
    CpuBinding binding = To(BindTo::kAuto, map_by);
    binding.workers_per_object = each;
    return PlacesByObjects(node, allowed, binding);
  };
  EXPECT_EQ(places(MapBy::kNuma, 3), 12u);
  EXPECT_EQ(places(MapBy::kPackage, 1), 2u);
  EXPECT_EQ(places(MapBy::kCore, 2), 32u);
  EXPECT_EQ(places(MapBy::kNuma, kWorkersPerNodeMax), kWorkersPerNodeMax);
  allowed.Intersect(node.cores.front().cpus);
  EXPECT_EQ(places(MapBy::kNuma, 3), 3u);
  EXPECT_EQ(PlacesByObjects({}, {}, To(BindTo::kAuto)), 1u);
}

TEST(CpuPlanTest, MemoryOfNamedNodes) {
  const Topology node = Machine({2, 1, 1, 4, 1});
  CpuBinding binding = To(BindTo::kCore);
  binding.memory = MemoryBinding::kInterleave;
  binding.memory_nodes = "0-1";
  const absl::StatusOr<CpuPlan> plan = PlanCpus(node, AllCpus(node), 2, binding);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const WorkerShare& share : plan->workers) {
    EXPECT_THAT(share.memory, ElementsAre(0, 1));
  }
  binding.memory_nodes = "all";
  EXPECT_THAT(PlanCpus(node, AllCpus(node), 2, binding)->workers[1].memory, ElementsAre(0, 1));
  binding.memory_nodes = "1,7";
  EXPECT_THAT(Error(node, 2, binding),
              AllOf(HasSubstr("--membind 1,7: "), HasSubstr("NUMA nodes with CPUs are 0-1")));
  Topology unknown = node;
  unknown.numa_nodes.clear();
  EXPECT_THAT(Error(unknown, 2, binding), HasSubstr("leave the list out"));
}

TEST(CpuPlanTest, SoManyCoresEach) {
  CpuBinding binding;
  binding.cores_per_worker = 3;
  const Topology node = Machine({2, 1, 1, 4, 1});
  EXPECT_THAT(Texts(node, 2, binding), ElementsAre("0-2", "4-6"));
  EXPECT_THAT(Error(node, 3, binding),
              AllOf(HasSubstr("--pe 3: 3 workers want 3 cores each"), HasSubstr("are 8")));
  binding.cores_per_worker = 6;
  EXPECT_THAT(Texts(node, 1, binding), ElementsAre("0-5"));
}

TEST(CpuPlanTest, TwoOnOneCoreOnlyWhereThatIsAskedFor) {
  const Topology node = Machine({1, 1, 1, 2, 1});
  CpuBinding binding = To(BindTo::kCore);
  EXPECT_THAT(Error(node, 3, binding),
              AllOf(HasSubstr("--bind-to core: 3 workers want 1 core each"), HasSubstr("are 2"),
                    HasSubstr("overload-allowed")));
  binding.overload = true;
  EXPECT_THAT(Texts(node, 3, binding), ElementsAre("0", "1", "0"));
}

TEST(CpuPlanTest, NoCpuThatIsKnown) {
  EXPECT_FALSE(PlanCpus(Machine({}), CpusFrom(7, 1), 1, {}).ok());
}

TEST(CpuPlanTest, OneWorkerAsItComesNeedsNone) {
  EXPECT_FALSE(WantsPlan({}, 1));
  EXPECT_TRUE(WantsPlan({}, 2));
  EXPECT_TRUE(WantsPlan(To(BindTo::kCore), 1));
  EXPECT_FALSE(WantsPlan(To(BindTo::kNone), 2));
}

TEST(CpuPlanTest, WaitsAsThoseWhoShareMost) {
  const Topology node = WithGpus(Machine({2, 1, 1, 4, 1}), {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(CpusToWaitWith(PlanFor(node, AllCpus(node), 6, To(BindTo::kAuto, MapBy::kGpu)), 8), 4u)
      << "6 on the 4 of one";
  EXPECT_EQ(CpusToWaitWith(PlanFor(node, AllCpus(node), 6), 8), 8u);
  EXPECT_EQ(CpusToWaitWith(PlanFor(node, AllCpus(node), 8), 8), 8u);
  EXPECT_EQ(CpusToWaitWith(PlanFor(node, AllCpus(node), 16), 8), 8u);
  const Topology threads = Machine({1, 1, 1, 2, 2});
  EXPECT_EQ(CpusToWaitWith(PlanFor(threads, AllCpus(threads), 4, To(BindTo::kHwthread)), 4), 4u)
      << "each has its hardware thread";
}

TEST(TopologyTest, IsPutInOrder) {
  Topology node;
  // As a kernel might have it: packages 1 and 0 by turns, one L3 number in both.
  for (uint32_t cpu = 0; cpu < 4; ++cpu) {
    node.cores.push_back({CpusFrom(cpu, 1), 7 + cpu % 2, cpu % 2, 3, 0});
  }
  node.numa_nodes = {4, 2};
  Arrange(node);
  std::vector<uint32_t> numbers;
  for (const TopologyCore& core : node.cores) {
    numbers.insert(numbers.end(), {core.cpus.Members()[0], core.package, core.numa, core.l3});
  }
  EXPECT_THAT(numbers, ElementsAre(0, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 1, 3, 1, 1, 1));
  EXPECT_THAT(node.numa_nodes, ElementsAre(4, 2));
}

}  // namespace
}  // namespace muster
