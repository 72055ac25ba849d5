#include "agent/core/bindings_report.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/agent/core/machines.h"

namespace muster {
namespace {

using testing::HasSubstr;

struct Scene {
  Topology topology;
  CpuSet allowed;
  CpuPlan plan;
  std::vector<uint32_t> ranks;

  Scene(Topology of, CpuSet may, uint32_t workers, const CpuBinding& binding = {})
      : topology(std::move(of)), allowed(std::move(may)) {
    plan = *PlanCpus(topology, allowed, workers, binding);
    for (uint32_t i = 0; i < workers; ++i) {
      ranks.push_back(10 + i);
    }
  }
  std::string Text() const { return PlacesText({"n1", topology, allowed, ranks, plan}); }
};

TEST(PlacesTest, APictureAndALineForEachWorker) {
  const Topology node = WithGpus(Machine({2, 1, 2, 2, 1}), {1, 0});
  EXPECT_EQ(Scene(node, CpusFrom(0, 7), 2).Text(),
            "bindings on n1: 2 workers, 8 cores (CPUs 0-6 may be used)\n"
            "  package 0  NUMA node 0  [11 11|11 11]\n"
            "  package 1  NUMA node 1  [10 10|10  -]\n"
            "  rank 10: CPUs 4-6, 3 cores, memory of NUMA node 1, GPU 0 gpu0\n"
            "  rank 11: CPUs 0-3, 4 cores, memory of NUMA node 0, GPU 1 gpu1\n");
}

TEST(PlacesTest, SharedAndUnusedCores) {
  EXPECT_THAT(Scene(Machine({1, 1, 1, 2, 1}), CpusFrom(0, 2), 3).Text(),
              HasSubstr("[* *]\n  rank 10: CPUs 0-1, 2 cores for 3 workers, memory"));
  CpuBinding binding;
  binding.bind_to = BindTo::kCore;
  EXPECT_THAT(Scene(Machine({1, 1, 1, 2, 1}), CpusFrom(0, 2), 1, binding).Text(),
              HasSubstr("[10  .]\n"));
  binding.bind_to = BindTo::kNone;
  EXPECT_THAT(Scene(Machine({1, 1, 1, 2, 1}), CpusFrom(0, 2), 2, binding).Text(),
              HasSubstr("rank 11: CPUs 0-1, not bound\n"));
}

TEST(ThreadsTest, SaysWhetherTheyAreWhereThePlanHasThem) {
  const std::vector<ThreadCpus> there = {{7, CpusFrom(0, 2)}, {8, CpusFrom(0, 2)}};
  EXPECT_FALSE(Drifted(CpusFrom(0, 2), there));
  EXPECT_EQ(ThreadsText(3, 7, CpusFrom(0, 2), there),
            "rank 3 (pid 7): 2 threads on CPUs 0-1, as planned");
  EXPECT_EQ(ThreadsText(3, 7, CpusFrom(0, 2), {}),
            "rank 3 (pid 7): it had ended before it was looked at");
  std::vector<ThreadCpus> moved = there;
  for (int32_t tid = 9; tid < 14; ++tid) {
    moved.push_back({tid, CpusFrom(0, 1)});
  }
  EXPECT_TRUE(Drifted(CpusFrom(0, 2), moved));
  EXPECT_EQ(ThreadsText(3, 7, CpusFrom(0, 2), moved),
            "rank 3 (pid 7): 5 of 7 threads not on CPUs 0-1, a library has moved them: thread 9 "
            "on 0, thread 10 on 0, thread 11 on 0, thread 12 on 0, ...");
}

}  // namespace
}  // namespace muster
