#include "agent/core/worker_argv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(WorkerArgv, A1TheProgramsWordsStayAsTheyAre) {
  WorkPlan plan;
  plan.argv = {"p", "{rank}", "a b", "it's\n\"$x\"", ""};
  EXPECT_EQ(WorkerArgv(plan, {}), plan.argv);
}

TEST(WorkerArgv, A1UnlessTheyAreToBeFilled) {
  WorkPlan plan;
  plan.fill = true;
  plan.argv = {"{rank}", "--local_rank={local_rank}", "{rank0}-{rank}", "{node_rank}@{host}",
               "{x}"};
  EXPECT_THAT(WorkerArgv(plan, {7, 3, 1, "b", 11}),
              ElementsAre("{rank}", "--local_rank=3", "07-7", "1@b", "{x}"));
  plan.virtual_local_rank = true;
  plan.wraps = {{{7}, {"w", "{local_rank}"}}};
  EXPECT_THAT(WorkerArgv(plan, {7, 3, 1, "b", 11}),
              ElementsAre("w", "3", "{rank}", "--local_rank=0", "07-7", "1@b", "{x}"))
      << "as LOCAL_RANK says";
}

TEST(WorkerArgv, A1OrFilledAsTorchrunDoes) {
  WorkPlan plan;
  plan.fill_torchrun = true;
  plan.argv = {"$local_rank", "--a=${local_rank},$local_rank", "$$$local_rank$$",
               "$local_ranks $local_rank_ $local_rank0 ${local_rank", "{local_rank} ${rank} $ $x"};
  EXPECT_THAT(WorkerArgv(plan, {7, 3, 1, "b", 11}),
              ElementsAre("$local_rank", "--a=3,3", "$3$",
                          "$local_ranks $local_rank_ $local_rank0 ${local_rank",
                          "{local_rank} ${rank} $ $x"));
}

TEST(WorkerArgv, A2WrappersNestInTheirOrder) {
  WorkPlan plan;
  plan.argv = {"p", "{rank}"};
  plan.wraps = {{{0, 1, 2}, {"perf", "-o", "perf.{rank}.{local_rank}"}},
                {{1}, {"gdb", "--args"}},
                {{2, 7}, {"at", "{host}-{node_rank}", "{other}"}}};
  EXPECT_THAT(WorkerArgv(plan, {1, 0, 1, "b"}),
              ElementsAre("perf", "-o", "perf.1.0", "gdb", "--args", "p", "{rank}"));
  EXPECT_THAT(WorkerArgv(plan, {7, 3, 2, "n"}), ElementsAre("at", "n-2", "{other}", "p", "{rank}"));
  EXPECT_THAT(WorkerArgv(plan, {3, 0, 0, "n"}), ElementsAre("p", "{rank}"));
}

TEST(FillNames, ADollarInFrontGoesToo) {
  EXPECT_EQ(FillNames("${rank}/${rank0}/${local_rank}/${node_rank}/${host} $rank ${x}",
                      {7, 3, 1, "b", 11}),
            "7/07/3/1/b $rank ${x}");
}

TEST(FillNames, RanksMaySortAsNames) {
  EXPECT_EQ(FillNames("rank.{rank0}/{rank}", {7, 0, 0, "", 101}), "rank.007/7");
  EXPECT_EQ(FillNames("{rank0}", {7, 0, 0, "", 10}), "7");
  EXPECT_EQ(FillNames("{rank0}", {100, 0, 0, "", 101}), "100");
}

TEST(WorkerArgv, A3ThePrologueComesBeforeAllWrappers) {
  WorkPlan plan;
  plan.argv = {"p", "x"};
  plan.prologue = "module load 'a b'\nulimit -n 4096";
  plan.wraps = {{{0}, {"w"}}};
  const auto argv = WorkerArgv(plan, {});
  ASSERT_EQ(argv.size(), 8u);
  EXPECT_EQ(argv[0], "/bin/sh");
  EXPECT_EQ(argv[4], plan.prologue);
  EXPECT_THAT(std::vector<std::string>(argv.begin() + 5, argv.end()), ElementsAre("w", "p", "x"));
}

}  // namespace
}  // namespace muster
