#include "launcher/first_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/schedule/slurm.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(FirstNode, LaunchRunsThereWithTheSameWords) {
  const std::vector<std::string> command =
      FirstNodeCommand(SrunOptions({}, {"node1"}), "/opt/bin/launch", {"-n", "2", "a b"});
  EXPECT_EQ(command.front(), "srun");
  EXPECT_THAT(std::vector<std::string>(command.end() - 5, command.end()),
              ElementsAre("--unbuffered", "/opt/bin/launch", "-n", "2", "a b"));
  EXPECT_THAT(command, testing::IsSupersetOf({"--nodelist=node1", "--ntasks=1", "--overlap"}));
}

TEST(FirstNode, VariablesOfSlurmTravelAsOneValue) {
  const std::vector<std::string> own = {"SLURM_JOB_ID=17", "PATH=/bin", "SLURMD_NODENAME=x",
                                        "SLURM_JOB_NAME=a\nb\\ \xff=", "SLURM_EMPTY="};
  const std::string packed = PackSlurmVariables(own);
  EXPECT_THAT(UnpackSlurmVariables(packed),
              ElementsAre("SLURM_JOB_ID=17", "SLURM_JOB_NAME=a\nb\\ \xff=", "SLURM_EMPTY="));
  EXPECT_THAT(UnpackSlurmVariables(""), ElementsAre());
}

TEST(FirstNode, TheStepIsSaidInOneLine) {
  EXPECT_EQ(StepOfLine("muster-step 17.3"), "17.3");
  for (const char* other : {"", "muster-step ", "muster-step 17", "muster-step 17.x", "17.3",
                            "muster-step 17.3.4", "muster-step 17.3 "}) {
    EXPECT_EQ(StepOfLine(other), std::nullopt) << other;
  }
}

// What is shown of pieces that come one after the other, with "|" between them.
std::string Shown(const std::vector<std::string>& pieces) {
  SrunErrors errors("node1");
  std::string out;
  for (const std::string& piece : pieces) {
    out += errors.Take(piece) + "|";
  }
  return out + errors.Rest();
}

TEST(FirstNode, OnlySrunsLineAboutTheExitCodeIsLeftOut) {
  EXPECT_EQ(Shown({"a\nsrun: error: node1: task 0: Exited with exit code 7\nb"}), "a\nb|");
  EXPECT_EQ(Shown({"srun: err", "or: node1: task 0: Exited with exit code 7", "\n"}), "|||");
  EXPECT_EQ(Shown({"srun: error: node1: task 0: Killed\n"}),
            "srun: error: node1: task 0: Killed\n|");
  EXPECT_EQ(Shown({"srun: error: node2: task 0: Exited with exit code 7\n"}),
            "srun: error: node2: task 0: Exited with exit code 7\n|");
  EXPECT_EQ(Shown({"srun: job 3", " queued\n"}), "srun: job 3| queued\n|");
  EXPECT_EQ(Shown({"Name? ", "s", "\n", "sr"}), "Name? |s|\n||sr");
  EXPECT_EQ(Shown({"x srun: error: node1: task 0: Exited with exit code 7\n"}),
            "x srun: error: node1: task 0: Exited with exit code 7\n|");
}

}  // namespace
}  // namespace muster
