#include "agent/core/cpu_count.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

CpuSet Cpus(const std::vector<uint32_t>& numbers) {
  CpuSet set;
  for (const uint32_t n : numbers) {
    set.Add(n);
  }
  return set;
}

TEST(CpuListTest, ReadsTheKernelsFormat) {
  EXPECT_EQ(ParseCpuList("0-3,8,10-11\n"), Cpus({0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(ParseCpuList("0"), Cpus({0}));
  EXPECT_EQ(ParseCpuList("63-65"), Cpus({63, 64, 65}));
}

TEST(CpuListTest, RefusesWhatIsNone) {
  for (const char* text : {"", "\n", "a", "3-1", "1-", "-3", "1,,2", "0-70000", "1 2", "0-3-5"}) {
    EXPECT_FALSE(ParseCpuList(text).has_value()) << text;
  }
}

TEST(CpuSetTest, IntersectsSetsOfDifferentLength) {
  CpuSet set = Cpus({1, 70, 200});
  set.Intersect(Cpus({1, 2, 70}));
  EXPECT_EQ(set, Cpus({1, 70}));
  EXPECT_EQ(set.Count(), 2u);
  EXPECT_TRUE(set.Has(70));
  EXPECT_FALSE(set.Has(200));
  EXPECT_FALSE(Cpus({1}) == Cpus({2}));
}

TEST(CpuSetTest, UnitesAndShows) {
  CpuSet set = Cpus({1});
  set.Unite(Cpus({2, 3, 70, 72}));
  EXPECT_EQ(set.Members(), std::vector<uint32_t>({1, 2, 3, 70, 72}));
  EXPECT_EQ(set.Text(), "1-3,70,72");
  EXPECT_EQ(ParseCpuList(set.Text()), set);
  EXPECT_TRUE(CpuSet().empty());
  EXPECT_EQ(CpuSet().Text(), "");
}

TEST(QuotaTest, ReadsBothGenerations) {
  EXPECT_DOUBLE_EQ(ParseCpuMax("150000 100000\n"), 1.5);
  EXPECT_DOUBLE_EQ(ParseCpuMax("max 100000\n"), 0);
  EXPECT_DOUBLE_EQ(ParseCpuMax(""), 0);
  EXPECT_DOUBLE_EQ(ParseCpuMax("150000"), 0);
  EXPECT_DOUBLE_EQ(ParseCfsQuota("400000\n", "100000\n"), 4);
  EXPECT_DOUBLE_EQ(ParseCfsQuota("-1\n", "100000\n"), 0);
  EXPECT_DOUBLE_EQ(ParseCfsQuota("400000", "0"), 0);
}

TEST(QuotaTest, TheTighterHoldsAndNoneIsNoLimit) {
  EXPECT_DOUBLE_EQ(TighterQuota(0, 2), 2);
  EXPECT_DOUBLE_EQ(TighterQuota(2, 0), 2);
  EXPECT_DOUBLE_EQ(TighterQuota(3, 2), 2);
  EXPECT_DOUBLE_EQ(TighterQuota(0, 0), 0);
}

TEST(CgroupFileTest, FindsTheHierarchyOfAController) {
  const auto lines = ParseCgroupFile("4:cpu,cpuacct:/docker/a:b\n3:cpuset:/x\n0::/user.slice\n");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(FindCgroup(lines, "cpu")->path, "/docker/a:b");
  EXPECT_EQ(FindCgroup(lines, "cpuset")->path, "/x");
  EXPECT_EQ(FindCgroup(lines, "memory")->path, "/user.slice");  // v2 carries the rest
  EXPECT_EQ(FindCgroup(ParseCgroupFile("4:cpu:/x\n"), "memory"), nullptr);
  EXPECT_TRUE(ParseCgroupFile("nonsense\n\n1:2\n").empty());
}

TEST(UsableTest, QuotaCutsDownAndOneIsTheLeast) {
  struct Case {
    uint32_t allowed;
    double quota;
    uint32_t usable;
  };
  for (const Case& c : {Case{8, 0, 8}, Case{8, 3.9, 3}, Case{8, 16, 8}, Case{8, 0.5, 1},
                        Case{0, 0, 1}, Case{8, 8, 8}}) {
    EXPECT_EQ(CpusUsable(c.allowed, c.quota), c.usable) << c.allowed << " " << c.quota;
  }
  EXPECT_EQ(ThreadsPerWorker(64, 16), 4u);
  EXPECT_EQ(ThreadsPerWorker(7, 2), 3u);
  EXPECT_EQ(ThreadsPerWorker(2, 16), 1u);
  EXPECT_EQ(ThreadsPerWorker(2, 0), 2u);
}

}  // namespace
}  // namespace muster
