#include "agent/core/env_filter.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

std::vector<std::string> Filtered(const std::vector<std::string>& inherited,
                                  const WorkPlan& plan = {}) {
  return FilterEnvironment(inherited, plan).entries;
}

TEST(FilterTest, E1BytesStayAsTheyAre) {
  const std::vector<std::string> odd = {"BASH_FUNC_f%%=() {  echo \"a=b\";\n}",
                                        "LINES=one\ntwo\n",
                                        std::string("RAW=\xff\xfe\x80"),
                                        "EMPTY=",
                                        "EQUALS=a=b=c",
                                        "NOVALUE",
                                        "=ODD"};
  EXPECT_THAT(Filtered(odd), testing::UnorderedElementsAreArray(odd));
}

// What says who a process is, written out by hand.
TEST(FilterTest, E2IdentityOfAnOuterLauncherGoes) {
  const std::vector<const char*> gone = {"RANK",
                                         "LOCAL_RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_WORLD_SIZE",
                                         "GROUP_RANK",
                                         "GROUP_WORLD_SIZE",
                                         "ROLE_NAME",
                                         "ROLE_RANK",
                                         "ROLE_WORLD_SIZE",
                                         "NODE_RANK",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "TORCHELASTIC_RUN_ID",
                                         "TORCHELASTIC_RESTART_COUNT",
                                         "TORCHELASTIC_USE_AGENT_STORE",
                                         "PMI_RANK",
                                         "PMI_FD",
                                         "PMI_PORT",
                                         "PMIX_RANK",
                                         "PMIX_SERVER_URI2",
                                         "PRTE_LAUNCHED",
                                         "OMPI_COMM_WORLD_RANK",
                                         "OMPI_COMM_WORLD_LOCAL_SIZE",
                                         "OMPI_UNIVERSE_SIZE",
                                         "OMPI_MCA_orte_hnp_uri",
                                         "OMPI_MCA_ess_base_jobid",
                                         "MPI_LOCALRANKID",
                                         "MPI_LOCALNRANKS",
                                         "PALS_RANKID",
                                         "MV2_COMM_WORLD_RANK",
                                         "JSM_NAMESPACE_RANK",
                                         "FLUX_TASK_RANK",
                                         "FLUX_JOB_SIZE",
                                         "HOROVOD_RANK",
                                         "HOROVOD_SIZE",
                                         "HOROVOD_LOCAL_RANK",
                                         "HOROVOD_CROSS_SIZE",
                                         "HOROVOD_HOSTNAME",
                                         "HOROVOD_ELASTIC",
                                         "HOROVOD_GLOO_RENDEZVOUS_PORT",
                                         "LOCAL_SIZE",
                                         "CROSS_RANK",
                                         "TF_CONFIG",
                                         "MUSTER_RANK",
                                         "MUSTER_ROUND",
                                         "MUSTER_SECRET",
                                         "SLURM_PROCID",
                                         "SLURM_LOCALID",
                                         "SLURM_TASK_PID",
                                         "SLURM_CPU_BIND_LIST",
                                         "SLURM_SRUN_COMM_PORT"};
  const std::vector<const char*> stay = {"RANKING",          "MY_RANK",
                                         "WORLD_SIZE_MAX",   "OMPI_MCA_btl_tcp_if_include",
                                         "HOROVOD_TIMELINE", "FLUX_JOB_ID",
                                         "NCCL_DEBUG",       "MUSTER_LOG",
                                         "SLURM_JOB_ID",     "SLURM_JOB_NODELIST",
                                         "MPI_HOME",         "PATH",
                                         "JSM_OTHER",        "TF_CONFIGURATION",
                                         "PBS_NODEFILE"};
  std::vector<std::string> inherited;
  std::vector<std::string> want;
  inherited.reserve(gone.size() + stay.size());
  want.reserve(stay.size());
  for (const char* name : gone) {
    inherited.push_back(std::string(name) + "=1");
  }
  for (const char* name : stay) {
    inherited.push_back(std::string(name) + "=1");
    want.push_back(inherited.back());
  }
  const EnvBase base = FilterEnvironment(inherited, {});
  EXPECT_THAT(base.entries, testing::UnorderedElementsAreArray(want));
  ASSERT_EQ(base.removed.size(), gone.size());
  for (const EnvVar& removed : base.removed) {
    EXPECT_EQ(removed.value, "1");
    EXPECT_FALSE(removed.why.empty()) << removed.name;
  }
}

TEST(FilterTest, E2WhatTheUserNamedStays) {
  WorkPlan plan;
  plan.env_set = {"PMI_RANK=7", "TF_CONFIG={}"};
  EXPECT_THAT(Filtered({"PMI_RANK=1", "PMI_SIZE=2"}, plan),
              ElementsAre("PMI_RANK=7", "TF_CONFIG={}"));
}

TEST(FilterTest, E3OfInheritedDuplicatesTheFirstCountsOfNamedOnesTheLast) {
  WorkPlan plan;
  std::vector<std::string> inherited;
  for (int i = 0; i < 200; ++i) {  // enough that a sort which is not stable shows
    inherited.push_back("A=" + std::to_string(i));
    inherited.push_back("B=" + std::to_string(i));
    plan.env_set.push_back("C=" + std::to_string(i));
  }
  EXPECT_THAT(Filtered(inherited, plan), ElementsAre("A=0", "B=0", "C=199"));
}

TEST(FilterTest, LayersInTheirOrder) {
  WorkPlan plan;
  plan.env_base = {"PATH=/launcher/bin", "VIRTUAL_ENV=/venv", "HOME=/home/launcher", "LANG=C",
                   "GONE=1"};
  plan.env_unset = {"GONE", "ALSO_GONE", "BACK"};
  plan.env_set = {"BACK=1", "LANG=de"};
  const auto got = Filtered({"PATH=/usr/bin", "HOME=/home/agent", "ALSO_GONE=1", "BACK=0"}, plan);
  EXPECT_THAT(got, UnorderedElementsAre("PATH=/launcher/bin", "VIRTUAL_ENV=/venv",
                                        "HOME=/home/agent", "LANG=de", "BACK=1"));
}

TEST(FilterTest, IdentityAmongWhatTheLauncherSentGoesToo) {
  WorkPlan plan;
  plan.env_base = {"RANK=3", "A=1"};
  EXPECT_THAT(Filtered({}, plan), ElementsAre("A=1"));
}

TEST(FilterTest, EnvNoneLeavesWhatALoginNeedsAndWhatTheUserNamed) {
  WorkPlan plan;
  plan.env_none = true;
  plan.env_base = {"PATH=/launcher/bin", "NCCL_DEBUG=INFO"};
  plan.env_set = {"MINE=1"};
  const EnvBase base = FilterEnvironment(
      {"PATH=/usr/bin", "HOME=/home/agent", "OMP_NUM_THREADS=3", "SLURM_JOB_ID=7"}, plan);
  EXPECT_THAT(base.entries, ElementsAre("HOME=/home/agent", "MINE=1", "PATH=/launcher/bin"));
  EXPECT_EQ(base.slurm, SlurmMode::kNone);  // workers see no Slurm job, so none is described
  ASSERT_EQ(base.removed.size(), 3u);
  EXPECT_EQ(base.removed[0].name, "NCCL_DEBUG");
  EXPECT_EQ(base.removed[0].why, "--env-none");
}

TEST(FilterTest, FindSeesValuesAndOnlyWholeNames) {
  const EnvBase base = FilterEnvironment({"AB=1", "A=2", "EMPTY=", "BARE"}, {});
  ASSERT_NE(base.Find("A"), nullptr);
  EXPECT_STREQ(base.Find("A"), "2");
  EXPECT_STREQ(base.Find("EMPTY"), "");
  EXPECT_EQ(base.Find("BARE"), nullptr);
  EXPECT_EQ(base.Find("ABC"), nullptr);
  EXPECT_EQ(base.Find(""), nullptr);
}

// An agent that pbsdsh has started has PBS's number, where launch may have the user's.
TEST(PbsTest, ItsThreadsDoNotStandInTheWayOfTheUsers) {
  const std::vector<std::string> inherited = {"NCPUS=4", "OMP_NUM_THREADS=4", "PBS_JOBID=3.s"};
  WorkPlan plan;
  plan.env_base = {"OMP_NUM_THREADS=2"};
  EXPECT_STREQ(FilterEnvironment(inherited, plan).Find("OMP_NUM_THREADS"), "2");
  plan.env_base = {"OMP_NUM_THREADS=4"};
  const EnvBase base = FilterEnvironment(inherited, plan);
  EXPECT_EQ(base.Find("OMP_NUM_THREADS"), nullptr);
  EXPECT_EQ(base.pbs_cpus, 4u);
  plan.env_set = {"OMP_NUM_THREADS=4"};
  EXPECT_STREQ(FilterEnvironment(inherited, plan).Find("OMP_NUM_THREADS"), "4");
  for (const char* none : {"NCPUS=8", "NCPUS=x", "OMP_NUM_THREADS=4"}) {
    const EnvBase other = FilterEnvironment({none, "OMP_NUM_THREADS=4", "PBS_JOBID=3.s"}, {});
    EXPECT_STREQ(other.Find("OMP_NUM_THREADS"), "4") << none;
    EXPECT_EQ(other.pbs_cpus, 0u) << none;
  }
}

TEST(SlurmTest, ModeFollowsTheEnvironmentAndTheDialect) {
  const std::vector<std::string> slurm = {"SLURM_JOB_ID=1", "SLURM_PROCID=0",
                                          "SLURM_STEP_NODELIST=n[1-2]", "SLURM_CPUS_PER_TASK=64"};
  const EnvBase under = FilterEnvironment(slurm, {});
  EXPECT_EQ(under.slurm, SlurmMode::kRewrite);
  EXPECT_EQ(under.slurm_nodelist, "n[1-2]");
  EXPECT_TRUE(under.slurm_cpus_per_task);
  EXPECT_THAT(under.entries, ElementsAre("SLURM_JOB_ID=1"));

  EXPECT_EQ(FilterEnvironment({"SLURM_PROCID=0"}, {}).slurm, SlurmMode::kNone);
  WorkPlan plan;
  plan.dialects = {"torch", "slurm"};
  EXPECT_EQ(FilterEnvironment({}, plan).slurm, SlurmMode::kRewrite);
  plan.dialects = {"slurm-keep"};
  EXPECT_EQ(Filtered(slurm, plan).size(), slurm.size());
  plan.dialects = {"slurm-scrub"};
  EXPECT_THAT(Filtered(slurm, plan), IsEmpty());
  EXPECT_FALSE(FilterEnvironment({"SLURM_JOB_ID=1"}, {}).slurm_cpus_per_task);
  plan.slurm_cpus_per_task = true;
  EXPECT_TRUE(FilterEnvironment({"SLURM_JOB_ID=1"}, plan).slurm_cpus_per_task);
  plan.slurm_nodelist = "n1";  // --nnodes 1, say
  EXPECT_EQ(FilterEnvironment(slurm, plan).slurm_nodelist, "n1");
}

TEST(MergeTest, OursReplaceAndTheRestIsUntouched) {
  const EnvBase base = FilterEnvironment({"A=1", "B=x\ny", "Z=26"}, {});
  EXPECT_THAT(EntriesWithout(base, {{"RANK", "0", ""}, {"B", "2", ""}, {"AA", "3", ""}}),
              ElementsAre("A=1", "Z=26"));
}

TEST(ForwardTest, SearchPathsAndSettingsButNothingOfTheHost) {
  const auto sent = EnvironmentToForward(
      {"PATH=/a", "LD_LIBRARY_PATH=/l", "PYTHONPATH=/p", "VIRTUAL_ENV=/v", "CONDA_PREFIX=/c",
       "OMP_NUM_THREADS=4", "NCCL_DEBUG=INFO", "HOME=/h", "USER=u", "HOSTNAME=x", "DISPLAY=:0",
       "SSH_AUTH_SOCK=/s", "XDG_RUNTIME_DIR=/r", "MUSTER_SECRET=s", "AWS_SECRET_ACCESS_KEY=k",
       "HF_TOKEN=t", "HF_HOME=/hf"},
      {}, Forwarded::kSettings);
  EXPECT_THAT(
      sent, ElementsAre("PATH=/a", "LD_LIBRARY_PATH=/l", "PYTHONPATH=/p", "VIRTUAL_ENV=/v",
                        "CONDA_PREFIX=/c", "OMP_NUM_THREADS=4", "NCCL_DEBUG=INFO", "HF_HOME=/hf"));
}

TEST(ForwardTest, EnvNoneSendsOnlyWhatProgramsAreFoundBy) {
  WorkPlan plan;
  plan.env_none = true;
  EXPECT_THAT(EnvironmentToForward({"PATH=/a", "LD_LIBRARY_PATH=/l", "VIRTUAL_ENV=/v",
                                    "OMP_NUM_THREADS=4", "HOME=/h"},
                                   plan, Forwarded::kSettings),
              ElementsAre("PATH=/a", "LD_LIBRARY_PATH=/l"));
  EXPECT_THAT(EnvironmentToForward({"PATH=/a", "LR=1", "HOME=/h"}, plan, Forwarded::kAll),
              ElementsAre("PATH=/a"));
}

TEST(ForwardTest, InAJobAllButWhatBelongsToItsFirstHost) {
  EXPECT_THAT(
      EnvironmentToForward(
          {"PATH=/a", "LR=0.1", "WANDB_API_KEY=k", "OMP_NUM_THREADS=4", "USER=u", "HOSTNAME=x",
           "PBS_JOBID=1", "PBS_NODENUM=0", "TMPDIR=/var/tmp/pbs.1", "NCPUS=4", "PWD=/w", "_=/x",
           "CUDA_VISIBLE_DEVICES=1", "DISPLAY=:0", "SSH_CLIENT=c", "MUSTER_SECRET=s"},
          {}, Forwarded::kAll),
      ElementsAre("PATH=/a", "LR=0.1", "WANDB_API_KEY=k", "OMP_NUM_THREADS=4", "USER=u"));
}

}  // namespace
}  // namespace muster
