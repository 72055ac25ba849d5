#include "launcher/schedule/slurm_stepd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kHow[] =
    "Slurm could not run the agent (/x/bin/muster-agent: Permission denied): muster-agent must be "
    "at this path on every node";

TEST(StepdEnd, NamesTheHostAndWhy) {
  const StepEnd end =
      StepdEnd("slurmstepd-node1: error: execve(): /x/bin/muster-agent: Permission denied");
  EXPECT_THAT(end.hosts, ElementsAre("node1"));
  EXPECT_EQ(end.how, kHow);
  EXPECT_FALSE(end.by_itself);
  const StepEnd older =
      StepdEnd("slurmstepd: error: execve(): /x/bin/muster-agent: Permission denied");
  EXPECT_THAT(older.hosts, IsEmpty());
  EXPECT_EQ(older.how, kHow);
}

TEST(StepdEnd, OtherLinesTellNothing) {
  for (const char* line :
       {"", "srun: error: execve(): /x: No such file or directory", "slurmstepd-node1: error: x",
        "srun: error: node1: task 1: Exited with exit code 2", "slurmstepd"}) {
    EXPECT_THAT(StepdEnd(line).hosts, IsEmpty()) << line;
    EXPECT_EQ(StepdEnd(line).how, "") << line;
  }
}

}  // namespace
}  // namespace muster
