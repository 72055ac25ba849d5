#include "launcher/schedule/slurm_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "A=1 B=2".
SlurmVariables Env(absl::string_view text) {
  SlurmVariables out;
  for (const absl::string_view entry : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> one = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    out.insert(one);
  }
  return out;
}

struct Asked {
  const char* environment;
  const char* steps;
};

class SlurmGpusOfJob : public testing::TestWithParam<Asked> {};

TEST_P(SlurmGpusOfJob, AreAskedForTheStepToo_G1) {
  const auto gpus = GpusOfJob(Env(GetParam().environment), 2, 0);
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ(absl::StrJoin(gpus->step, " "), GetParam().steps);
}

constexpr char kEven[] = "--gpus-per-node=4 --gpus-per-node=4";
constexpr char kEvenA100[] = "--gpus-per-node=a100:4 --gpus-per-node=a100:4";

INSTANTIATE_TEST_SUITE_P(
    Captured, SlurmGpusOfJob,
    testing::Values(Asked{"SLURM_TASKS_PER_NODE=1(x2)", " "},
                    Asked{"SLURM_GPUS_PER_NODE=a100:4", kEvenA100},
                    Asked{"SLURM_GPUS_ON_NODE=2", " "},  // --gres: a step has them all
                    Asked{"SLURM_GPUS=8 SLURM_GPUS_ON_NODE=4", kEven},
                    Asked{"SLURM_GPUS=a100:8", kEvenA100},  // behind salloc
                    Asked{"SLURM_GPUS=3 SLURM_GPUS_ON_NODE=2", "--gpus=2 --gpus=1"},
                    Asked{"SLURM_GPUS=a100:4 SLURM_GPUS_ON_NODE=3", "--gpus=a100:3 --gpus=a100:1"},
                    Asked{"SLURM_GPUS=a:2,b:2 SLURM_GPUS_ON_NODE=2", " "},
                    Asked{"SLURM_GPUS=a:2,b:2 SLURM_GPUS_ON_NODE=3", "--gpus=3 --gpus=1"},
                    Asked{"SLURM_GPUS_PER_TASK=1 SLURM_TASKS_PER_NODE=4(x2)", kEven},
                    Asked{"SLURM_GPUS_PER_TASK=a100:2 SLURM_TASKS_PER_NODE=2(x2)", kEvenA100},
                    Asked{"SLURM_GPUS_PER_TASK=1 SLURM_TASKS_PER_NODE=3,1", "--gpus=3 --gpus=1"},
                    Asked{"SLURM_GPUS_PER_TASK=0 SLURM_TASKS_PER_NODE=3,1",
                          "--gpus-per-node=0 --gpus-per-node=0"},
                    Asked{"SLURM_GPUS_PER_TASK=a:1,b:1 SLURM_TASKS_PER_NODE=3(x2)", " "},
                    Asked{"SLURM_NTASKS_PER_GPU=1 SLURM_TASKS_PER_NODE=2(x2) SLURM_GPUS_ON_NODE=3",
                          "--gpus=3 --gpus=1"},
                    Asked{"SLURM_NTASKS_PER_GPU=2 SLURM_TASKS_PER_NODE=8(x2) SLURM_GPUS_ON_NODE=4",
                          kEven},
                    Asked{"SLURM_NTASKS_PER_GPU=x SLURM_TASKS_PER_NODE=8(x2)", " "},
                    // one of each node, as nothing says how they are spread
                    Asked{"SLURM_GPUS=3", "--gpus-per-node=1 --gpus-per-node=1"}));

TEST(SlurmGpus, AreThoseOfScontrolWhereItWasAsked_G2) {
  SlurmVariables environment = Env("SLURM_GPUS=a100:7");
  environment[kGpusOfNodes] = "4,2,1";
  const auto gpus = GpusOfJob(environment, 3, 3);
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_THAT(gpus->each, ElementsAre(4, 2, 1));
  EXPECT_THAT(gpus->step, ElementsAre("--gpus=a100:4", "--gpus=a100:2", "--gpus=a100:1"));
  EXPECT_EQ(gpus->note, "");
  environment[kGpusOfNodes] = "4,3";  // of other nodes
  EXPECT_THAT(GpusOfJob(environment, 3, 3)->each, ElementsAre(1, 1, 1));
}

TEST(SlurmGpus, WhoseSpreadIsNotKnownAreOneForEachNodeAndSaid_G2) {
  const auto gpus = GpusOfJob(Env("SLURM_GPUS=7 SLURM_GPUS_ON_NODE=4"), 3, 0);
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_THAT(gpus->each, ElementsAre(1, 1, 1));
  EXPECT_THAT(gpus->note, HasSubstr("how its 7 GPUs (SLURM_GPUS=7) are spread over 3 nodes"));
  EXPECT_THAT(gpus->note, HasSubstr("--gpus-per-node=N"));
}

TEST(SlurmGpus, ScontrolIsAskedWhereTheVariablesLeaveItOpen) {
  const char* job = "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=n[0-2] ";
  EXPECT_TRUE(AsksForGpus(Env(absl::StrCat(job, "SLURM_GPUS=7 SLURM_GPUS_ON_NODE=4"))));
  EXPECT_TRUE(AsksForGpus(Env(absl::StrCat(job, "SLURM_NTASKS_PER_GPU=1"))));
  EXPECT_TRUE(AsksForGpus(Env("SLURM_JOB_ID=3 SLURM_JOB_NODELIST=a,b SLURM_GPUS=4")));
  for (const char* known : {"", "SLURM_GPUS_ON_NODE=4", "SLURM_GPUS=8 SLURM_GPUS_PER_NODE=4",
                            "SLURM_GPUS=8 SLURM_STEP_NODELIST=n0", "SLURM_GPUS=8 SLURM_HET_SIZE=2",
                            "SLURM_GPUS=8 MUSTER_JOB_ID=job-1"}) {
    EXPECT_FALSE(AsksForGpus(Env(absl::StrCat(job, known)))) << known;
  }
  EXPECT_FALSE(
      AsksForGpus(Env("SLURM_JOB_ID=3 SLURM_JOB_NODELIST=a,b SLURM_GPUS=4 SLURM_GPUS_ON_NODE=3")));
  EXPECT_FALSE(AsksForGpus(Env("SLURM_JOB_ID=3 SLURM_JOB_NODELIST=a SLURM_GPUS=4")));
}

// As captured of Slurm 22.05; newer ones have the type.
TEST(SlurmGpus, OfEachNodeByScontrol) {
  const auto of = [](const char* job) {
    return GpusOfNodes(job, Env("SLURM_JOB_ID=7 SLURM_JOB_NODELIST=node[0-2]")).value_or("none");
  };
  EXPECT_EQ(of("NodeList=node[0-2] NumNodes=3 JOB_GRES=gpu:5   Nodes=node0 CPU_IDs=0 Mem=0 "
               "GRES=gpu:3(IDX:0-2)   Nodes=node[1-2] CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0) "
               "MinCPUsNode=1 TresPerJob=gres:gpu:5\n"),
            "3,1(x2)");
  EXPECT_EQ(of("Nodes=node[0-1] GRES=gpu:a100:2(IDX:0,3),gpu:v100:1(IDX:1),shard:8(1/2) "
               "Nodes=node2 GRES=gpu:a100:4(IDX:0-3)"),
            "3(x2),4");
  EXPECT_EQ(of("JobId=7 ArrayJobId=7 ArrayTaskId=2 Nodes=node[0-2] GRES=gpu:2(IDX:0-1)\n"
               "JobId=8 ArrayJobId=7 ArrayTaskId=1 Nodes=node[0-2] GRES=gpu:1(IDX:2)\n"),
            "2(x3)");
  for (const char* unknown : {"", "Nodes=node[0-1] GRES=gpu:2(IDX:0-1)", "Nodes=node[0- GRES=gpu:2",
                              "Nodes=node[0-2] CPU_IDs=0-1 Mem=0 GRES="}) {
    EXPECT_EQ(of(unknown), "none") << unknown;
  }
}

TEST(SlurmGpus, OfATaskAreItsOwnWhereSrunWouldShowItNoOthers) {
  const auto own = [](const char* environment) {
    const std::optional<GpusOfTask> out = OwnGpusOfTask(Env(environment));
    return out.has_value() ? absl::StrCat(out->each, " by ", out->said) : "all";
  };
  EXPECT_EQ(own("SLURM_GPUS_PER_TASK=1"), "1 by SLURM_GPUS_PER_TASK=1");
  EXPECT_EQ(own("SLURM_GPUS_PER_TASK=a100:2"), "2 by SLURM_GPUS_PER_TASK=a100:2");
  EXPECT_EQ(own("SLURM_NTASKS_PER_GPU=1"), "1 by SLURM_NTASKS_PER_GPU=1");
  EXPECT_EQ(own("SLURM_GPU_BIND=single:1"), "1 by SLURM_GPU_BIND=single:1");
  EXPECT_EQ(own("SLURM_GPU_BIND=verbose,single:1"), "1 by SLURM_GPU_BIND=verbose,single:1");
  EXPECT_EQ(own("SLURM_GPU_BIND=per_task:2"), "2 by SLURM_GPU_BIND=per_task:2");
  for (const char* shared :
       {"", "SLURM_GPUS_PER_NODE=4", "SLURM_NTASKS_PER_GPU=2", "SLURM_GPU_BIND=single:2",
        "SLURM_GPU_BIND=closest", "SLURM_GPUS_PER_TASK=1 SLURM_GPU_BIND=none",
        "SLURM_GPUS_PER_TASK=0", "SLURM_GPUS_PER_TASK=x"}) {
    EXPECT_EQ(own(shared), "all") << shared;
  }
}

}  // namespace
}  // namespace muster
