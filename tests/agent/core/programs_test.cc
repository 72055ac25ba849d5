#include "agent/core/programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

WorkPlan Three() {
  WorkPlan plan;
  plan.argv = {"a", "1"};
  plan.wdir = "/first";
  plan.env_set = {"V=a"};
  plan.prologue = "true";
  plan.further = {{2, {"b"}, "", {"V=b"}}, {5, {"c"}, "/third", {}}};
  return plan;
}

TEST(Programs, ARankRunsTheLastOneThatBeginsBeforeIt) {
  const WorkPlan plan = Three();
  for (const auto& [rank, program] :
       {std::pair{0u, 0u}, {1u, 0u}, {2u, 1u}, {4u, 1u}, {5u, 2u}, {1000u, 2u}}) {
    EXPECT_EQ(ProgramOf(plan, rank), program) << rank;
  }
  EXPECT_EQ(ProgramOf(WorkPlan(), 7), 0u);
}

TEST(Programs, EachHasWordsFolderAndVariablesOfItsOwn) {
  const WorkPlan plan = Three();
  EXPECT_EQ(ProgramCount(plan), 3u);
  const WorkPlan first = PlanOfProgram(plan, 0);
  EXPECT_THAT(first.argv, ElementsAre("a", "1"));
  EXPECT_EQ(first.wdir, "/first");
  EXPECT_THAT(first.further, IsEmpty());
  const WorkPlan second = PlanOfProgram(plan, 1);
  EXPECT_THAT(second.argv, ElementsAre("b"));
  EXPECT_EQ(second.wdir, "");
  EXPECT_THAT(second.env_set, ElementsAre("V=b"));
  EXPECT_EQ(second.prologue, "true");
  EXPECT_EQ(PlanOfProgram(plan, 2).wdir, "/third");
}

}  // namespace
}  // namespace muster
