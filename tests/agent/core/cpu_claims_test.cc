#include "agent/core/cpu_claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/agent/core/machines.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CpuBinding Cores(uint32_t each = 1) {
  CpuBinding out;
  out.bind_to = BindTo::kCore;
  out.cores_per_worker = each;
  return out;
}

// What the workers have, by local rank.
std::vector<std::string> Plan(const Topology& topology, const std::string& taken, uint32_t workers,
                              const CpuBinding& binding) {
  const absl::StatusOr<CpuPlan> plan = PlanBeside(
      topology, AllCpus(topology), ParseCpuList(taken).value_or(CpuSet()), workers, binding);
  std::vector<std::string> out;
  EXPECT_TRUE(plan.ok()) << plan.status();
  for (const WorkerShare& share : plan.ok() ? plan->workers : std::vector<WorkerShare>()) {
    out.push_back(share.cpus.Text());
  }
  return out;
}

TEST(CpuClaimsTest, CoresThatOthersHaveAreLeftAloneWhileThereAreEnough) {
  const Topology topology = Machine({.cores = 8});
  EXPECT_THAT(Plan(topology, "", 2, Cores()), ElementsAre("0", "1"));
  EXPECT_THAT(Plan(topology, "0-1", 2, Cores()), ElementsAre("2", "3"));
  EXPECT_THAT(Plan(topology, "0-1,4", 2, Cores(2)), ElementsAre("2-3", "5-6"));
  EXPECT_THAT(Plan(topology, "0-6", 2, Cores()), ElementsAre("0", "1")) << "one is left for two";
  EXPECT_THAT(Plan(topology, "0-7", 1, Cores()), ElementsAre("0"));
}

TEST(CpuClaimsTest, ACoreOfWhichAThreadIsTakenIsNobodysOwn) {
  const Topology topology = Machine({.cores = 4, .threads = 2});  // CPUs n and n + 4
  EXPECT_THAT(Plan(topology, "4", 2, Cores()), ElementsAre("1,5", "2,6"));
  CpuBinding threads;
  threads.bind_to = BindTo::kHwthread;
  EXPECT_THAT(Plan(topology, "4", 3, threads), ElementsAre("0", "1", "5"));
}

TEST(CpuClaimsTest, WhereMapByWantsThemComesFirst) {
  const Topology topology = Machine({.packages = 2, .cores = 4});
  CpuBinding binding = Cores();
  binding.map_by = MapBy::kPackage;
  EXPECT_THAT(Plan(topology, "0,4", 2, binding), ElementsAre("1", "5"));
  binding.workers_per_object = 3;
  EXPECT_THAT(Plan(topology, "0-1", 6, binding),
              ElementsAre("0", "1", "2", "4", "5", "6"));  // six are left, but not three of each
}

TEST(CpuClaimsTest, OnlyOnesOwnCoresAreClaimed) {
  EXPECT_TRUE(WantsOwnCpus(Cores()));
  CpuBinding binding;
  EXPECT_FALSE(WantsOwnCpus(binding)) << "auto shares";
  binding.cores_per_worker = 2;
  EXPECT_TRUE(WantsOwnCpus(binding));
  for (const BindTo bind_to : {BindTo::kNone, BindTo::kNuma, BindTo::kPackage, BindTo::kL3Cache}) {
    binding = CpuBinding();
    binding.bind_to = bind_to;
    EXPECT_FALSE(WantsOwnCpus(binding)) << static_cast<int>(bind_to);
  }
}

TEST(CpuClaimsTest, NamesAreReadBackByTheSameUserAlone) {
  CpuSet cpus = CpusFrom(0, 4);
  cpus.Add(9);
  EXPECT_THAT(ClaimNames(7, 55, cpus), ElementsAre("muster-cpus/7/55/0-3,9"));
  EXPECT_THAT(ClaimNames(7, 55, CpuSet()), IsEmpty());
  const std::string text =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "00000000d0b5a3d1: 00000002 00000000 00000000 0002 01 20463 @muster-cpus/7/55/0-3,9\n"
      "00000000d0b5a3d2: 00000002 00000000 00000000 0002 01 20464 @muster-cpus/70/1/5\n"
      "00000000d0b5a3d3: 00000002 00000000 00000000 0002 01 20465 /run/muster-cpus/7/1/6\n"
      "00000000d0b5a3d4: 00000002 00000000 00000000 0002 01 20466 @muster-cpus/7/2/8-7\n"
      "00000000d0b5a3d5: 00000002 00000000 00000000 0002 01 20467 @muster-cpus/7/nonsense\n"
      "00000000d0b5a3d6: 00000002 00000000 00000000 0002 01 20468\n"
      "00000000d0b5a3d7: 00000002 00000000 00000000 0002 01 20469 @muster-cpus/7/2/11";
  cpus.Add(11);
  EXPECT_EQ(ClaimedCpus(7, text).Text(), cpus.Text());
  EXPECT_EQ(ClaimedCpus(8, text).Text(), "");
}

TEST(CpuClaimsTest, ManyCpusTakeSeveralNames) {
  CpuSet odd;
  for (uint32_t cpu = 1; cpu < 1000; cpu += 2) {
    odd.Add(cpu);
  }
  std::string text;
  for (const std::string& name : ClaimNames(1000, 4'000'000, odd)) {
    EXPECT_LE(name.size(), kClaimBytesMax);
    text += "x: 2 0 0 2 01 1 @" + name + "\n";
  }
  EXPECT_EQ(ClaimedCpus(1000, text).Text(), odd.Text());
}

TEST(CpuClaimsTest, WhatIsSharedIsSaid) {
  const Topology topology = Machine({.cores = 2});
  const absl::StatusOr<CpuPlan> plan =
      PlanBeside(topology, AllCpus(topology), CpusFrom(1, 1), 2, Cores());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(SharedNotice(*plan, CpusFrom(1, 1)), HasSubstr("bound to CPU 1, which"));
  EXPECT_THAT(SharedNotice(*plan, CpusFrom(0, 2)), HasSubstr("bound to CPUs 0-1, which"));
  EXPECT_EQ(SharedNotice(*plan, CpuSet()), "");
}

}  // namespace
}  // namespace muster
