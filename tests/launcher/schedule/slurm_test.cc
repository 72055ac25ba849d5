#include "launcher/schedule/slurm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/slurm_job.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "A=1 B=2".
std::map<std::string, std::string> Env(absl::string_view text) {
  std::map<std::string, std::string> out;
  for (const absl::string_view entry : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> one = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    out.insert(one);
  }
  return out;
}

absl::StatusOr<std::string> NoConfiguration(const std::string& path) {
  return absl::NotFoundError(path);
}

// "node0:3 node1:3 (tasks)".
std::string Describe(const GivenHosts& given) {
  std::vector<std::string> hosts;
  for (const HostEntry& host : given.hosts) {
    hosts.push_back(absl::StrCat(host.name, ":", host.slots));
  }
  return absl::StrCat(absl::StrJoin(hosts, " "), " (", given.slots_are, ")");
}

struct Case {
  const char* what;
  const char* environment;
  const char* hosts;
};

class SlurmAllocation : public testing::TestWithParam<Case> {};

// As captured from Slurm 22.05.
TEST_P(SlurmAllocation, HasHostsAndSlots) {
  const auto given = HostsOfSlurm(Env(GetParam().environment));
  ASSERT_TRUE(given.ok()) << given.status();
  ASSERT_TRUE(given->has_value());
  EXPECT_EQ(Describe(**given), GetParam().hosts);
  EXPECT_EQ((*given)->job, "Slurm job 3");
}

INSTANTIATE_TEST_SUITE_P(
    Captured, SlurmAllocation,
    testing::Values(
        Case{"sbatch -N2 --ntasks-per-node=3 -c2",
             "SLURM_JOB_ID=3 SLURM_JOBID=3 SLURM_JOB_NODELIST=node[0-1] SLURM_NODELIST=node[0-1] "
             "SLURM_JOB_NUM_NODES=2 SLURM_NTASKS=6 SLURM_NPROCS=6 SLURM_NTASKS_PER_NODE=3 "
             "SLURM_TASKS_PER_NODE=3(x2) SLURM_CPUS_PER_TASK=2 SLURM_JOB_CPUS_PER_NODE=6(x2) "
             "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0",
             "node0:3 node1:3 (tasks)"},
        Case{"sbatch -N2: one task a node was not asked for",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=node[0-1] SLURM_TASKS_PER_NODE=1(x2) "
             "SLURM_JOB_CPUS_PER_NODE=2,1",
             "node0:2 node1:1 (CPUs)"},
        Case{"sbatch -N3 --exclusive",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=node[0-2] SLURM_TASKS_PER_NODE=16(x3) "
             "SLURM_JOB_CPUS_PER_NODE=16(x3)",
             "node0:16 node1:16 node2:16 (CPUs)"},
        Case{"sbatch -n40: uneven",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=node[0-2] SLURM_NTASKS=40 "
             "SLURM_TASKS_PER_NODE=16(x2),8",
             "node0:16 node1:16 node2:8 (tasks)"},
        Case{"sbatch -N2 --gpus-per-node=4",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=gpu[08-09] SLURM_TASKS_PER_NODE=1(x2) "
             "SLURM_GPUS_PER_NODE=a100:4 SLURM_JOB_CPUS_PER_NODE=64(x2)",
             "gpu08:4 gpu09:4 (GPUs)"},
        Case{"sbatch --gres=gpu:2 -N1",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=gpu1 SLURM_TASKS_PER_NODE=1 SLURM_GPUS_ON_NODE=2 "
             "SLURM_JOB_CPUS_PER_NODE=8",
             "gpu1:2 (GPUs)"},
        Case{"two bracket groups",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=r[1-2]n[01-02] SLURM_NTASKS=8 "
             "SLURM_TASKS_PER_NODE=2(x4)",
             "r1n01:2 r1n02:2 r2n01:2 r2n02:2 (tasks)"},
        Case{"an older Slurm's names",
             "SLURM_JOBID=3 SLURM_NODELIST=a,b7 SLURM_NPROCS=3 SLURM_TASKS_PER_NODE=2,1",
             "a:2 b7:1 (tasks)"},
        Case{"a step of one task within a larger job",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=node[0-3] SLURM_STEP_NODELIST=node2 "
             "SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=1 SLURM_STEP_TASKS_PER_NODE=1 "
             "SLURM_TASKS_PER_NODE=1 SLURM_NTASKS_PER_NODE=3",
             "node2:1 (tasks)"},
        Case{"srun --ntasks-per-node=1 on one node: its GPUs, as on two",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=node0 SLURM_STEP_NODELIST=node0 SLURM_STEP_ID=0 "
             "SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=1 SLURM_STEP_TASKS_PER_NODE=1 "
             "SLURM_TASKS_PER_NODE=1 SLURM_GPUS_ON_NODE=4 SLURM_CPUS_ON_NODE=16",
             "node0:4 (GPUs)"},
        Case{"srun -n1 -c2 on one node: its CPUs",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=node0 SLURM_STEP_NODELIST=node0 SLURM_STEP_ID=0 "
             "SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=1 SLURM_STEP_TASKS_PER_NODE=1 "
             "SLURM_TASKS_PER_NODE=1 SLURM_CPUS_ON_NODE=2 SLURM_JOB_CPUS_PER_NODE=4",
             "node0:2 (CPUs)"},
        Case{"the shell of salloc is a step of its own",
             "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=node[0-1] SLURM_STEP_ID=4294967290 "
             "SLURM_STEP_NODELIST=node0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1 "
             "SLURM_TASKS_PER_NODE=4(x2) SLURM_NTASKS=8",
             "node0:4 node1:4 (tasks)"},
        Case{"no counts at all", "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=node[0,3]",
             "node0:1 node3:1 (nodes)"}));

// As captured of `salloc -N1 -n2 : -N2 -n4`; a batch script has the first component's names, too.
constexpr char kHet[] =
    "SLURM_HET_SIZE=2 SLURM_JOB_ID=3 SLURM_NTASKS=6 SLURM_JOB_ID_HET_GROUP_0=3 "
    "SLURM_JOB_ID_HET_GROUP_1=4 SLURM_JOB_NODELIST_HET_GROUP_0=node0 "
    "SLURM_JOB_NODELIST_HET_GROUP_1=node[1-2] SLURM_NTASKS_HET_GROUP_0=2 "
    "SLURM_NTASKS_HET_GROUP_1=4 SLURM_TASKS_PER_NODE_HET_GROUP_0=2 "
    "SLURM_TASKS_PER_NODE_HET_GROUP_1=3,1 ";

TEST(Slurm, AHeterogeneousJobIsAllItsComponents) {
  for (const char* more : {"", "SLURM_JOB_NODELIST=node0 SLURM_TASKS_PER_NODE=2",
                           // the shell of an interactive step
                           "SLURM_STEP_ID=4294967290 SLURM_STEP_NODELIST=node0 "
                           "SLURM_JOB_NODELIST=node0 SLURM_TASKS_PER_NODE=2"}) {
    const auto given = HostsOfSlurm(Env(absl::StrCat(kHet, more)));
    ASSERT_TRUE(given.ok()) << given.status();
    EXPECT_EQ(Describe(**given), "node0:2 node1:3 node2:1 (tasks)");
    EXPECT_EQ((*given)->job, "Slurm job 3");
    EXPECT_THAT(StepsFor(**given, {"node2", "node0", "node1"}),
                ElementsAre(ElementsAre("node0"), ElementsAre("node2", "node1")));
    EXPECT_THAT(SrunOptions(**given, {"node2"}), testing::Contains("--het-group=1"));
  }
  const auto shared = HostsOfSlurm(
      Env("SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_0=a SLURM_JOB_NODELIST_HET_GROUP_1=a,b "
          "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_0=2 SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1=3,4"));
  EXPECT_EQ(Describe(**shared), "a:5 b:4 (CPUs)");
}

TEST(Slurm, AJobOfAnArrayIsCalledAsSqueueCallsIt) {
  const auto given = HostsOfSlurm(
      Env("SLURM_JOB_ID=13 SLURM_ARRAY_JOB_ID=12 SLURM_ARRAY_TASK_ID=7 SLURM_JOB_NODELIST=a"));
  EXPECT_EQ((*given)->job, "Slurm job 12_7");
}

TEST(Slurm, OutsideOfAJobThereIsNothing) {
  for (const char* none : {"", "SLURM_CONF=/etc/slurm.conf", "SLURM_JOB_ID=3",
                           "SLURM_JOB_NODELIST=a", "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=",
                           "SLURM_JOB_ID=3 SLURM_JOB_NODELIST=a MUSTER_JOB_ID=job-1"}) {
    const auto given = HostsOfSlurm(Env(none));
    ASSERT_TRUE(given.ok()) << none;
    EXPECT_FALSE(given->has_value()) << none;
  }
}

struct Bad {
  const char* environment;
  const char* says;
};

class BadSlurm : public testing::TestWithParam<Bad> {};

TEST_P(BadSlurm, IsRefusedWithTheVariableAndTheWayOut) {
  const auto given =
      HostsOfSlurm(Env(absl::StrCat("SLURM_JOB_ID=3 SLURM_NTASKS=2 ", GetParam().environment)));
  ASSERT_EQ(given.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(given.status().message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Variables, BadSlurm,
    testing::Values(
        Bad{"SLURM_JOB_NODELIST=node[0-", "SLURM_JOB_NODELIST=node[0-: "},
        Bad{"SLURM_JOB_NODELIST=a,b SLURM_TASKS_PER_NODE=3",
            "SLURM_TASKS_PER_NODE=3: speaks of 1 node, the node list of 2"},
        Bad{"SLURM_JOB_NODELIST=a,b SLURM_TASKS_PER_NODE=3(x", "SLURM_TASKS_PER_NODE=3(x: "},
        Bad{"SLURM_JOB_NODELIST=a SLURM_TASKS_PER_NODE=0", "want 1.."},
        Bad{"SLURM_JOB_NODELIST=a SLURM_TASKS_PER_NODE=4000000", "want 1.."},
        Bad{"SLURM_JOB_NODELIST=a SLURM_GPUS_PER_NODE=many", "SLURM_GPUS_PER_NODE=many: want a"},
        Bad{"SLURM_JOB_NODELIST=a SLURM_GPUS_PER_NODE=99999999999", "want a number of GPUs"},
        Bad{"SLURM_JOB_NODELIST=a[1-9999999]", "SLURM_JOB_NODELIST="},
        Bad{"SLURM_HET_SIZE=x SLURM_JOB_NODELIST=a", "SLURM_HET_SIZE=x: want 1.."},
        Bad{"SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_0=a",
            "SLURM_HET_SIZE=2: SLURM_JOB_NODELIST_HET_GROUP_1 is not set"}));

// As captured of `srun --ntasks-per-node=1` in an allocation of two nodes; what follows replaces.
std::map<std::string, std::string> Task(absl::string_view text) {
  std::map<std::string, std::string> out = Env(text);
  out.merge(Env(
      "SLURM_JOB_ID=17 SLURM_JOBID=17 SLURM_STEP_ID=2 SLURM_STEPID=2 SLURM_NODEID=1 SLURM_PROCID=1 "
      "SLURM_JOB_NODELIST=node[0-3] SLURM_STEP_NODELIST=node[1-2] SLURM_STEP_NUM_NODES=2 "
      "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_CPUS_ON_NODE=6 "
      "SLURM_JOB_CPUS_PER_NODE=6(x4) SLURM_LOCALID=0 SLURM_GTIDS=1 SLURMD_NODENAME=node2"));
  return out;
}

// "slurm-17.2 1/2 at node1:20631, 6 CPUs".
std::string Describe(const StepTask& task) {
  return absl::StrCat(task.job_id, " ", task.node_rank, "/", task.nodes, " at ", task.hosts.front(),
                      ":", task.port, ", ", task.workers, " ", task.workers_are);
}

class SlurmTask : public testing::TestWithParam<Case> {};

TEST_P(SlurmTask, KnowsItsPlaceAndWhoServes) {
  const auto task = TaskOfSlurm(Task(GetParam().environment));
  ASSERT_TRUE(task.ok()) << task.status();
  ASSERT_TRUE(task->has_value());
  EXPECT_EQ(Describe(**task), GetParam().hosts);
}

INSTANTIATE_TEST_SUITE_P(
    Captured, SlurmTask,
    testing::Values(
        Case{"CPUs of the node", "", "slurm-17.2 1/2 at node1:20631, 6 CPUs"},
        Case{"GPUs of the node come first", "SLURM_GPUS_ON_NODE=3 SLURM_GPUS_PER_NODE=4",
             "slurm-17.2 1/2 at node1:20631, 3 GPUs"},
        Case{"no GPU here", "SLURM_GPUS_ON_NODE=0", "slurm-17.2 1/2 at node1:20631, 6 CPUs"},
        Case{"no counts", "SLURM_CPUS_ON_NODE=", "slurm-17.2 1/2 at node1:20631, 1 "},
        Case{"the first of three, one padded",
             "SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NODELIST=r[1-2]n08,login",
             "slurm-17.2 0/3 at r1n08:20631, 6 CPUs"},
        Case{"a step of two components of a het job",
             "SLURM_HET_SIZE=2 SLURM_JOB_NODELIST_HET_GROUP_1=node2 SLURM_CPUS_ON_NODE=3",
             "slurm-17.2 1/2 at node1:20631, 3 CPUs"},
        Case{"a large id", "SLURM_JOB_ID=4294967295 SLURM_STEP_ID=7",
             "slurm-4294967295.7 1/2 at node1:26922, 6 CPUs"}));

TEST(Slurm, ATaskAloneOrAShellIsNoNodeOfAStep) {
  for (const char* none :
       {"SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=", "SLURM_STEP_ID=4294967290",
        "SLURM_STEP_NUM_TASKS=", "MUSTER_JOB_ID=job-1", "SLURM_JOB_ID= SLURM_JOBID="}) {
    const auto task = TaskOfSlurm(Task(none));
    ASSERT_TRUE(task.ok()) << none;
    EXPECT_FALSE(task->has_value()) << none;
  }
}

TEST(Slurm, AtThePromptOfAStepItsNodesAreTheAllocation) {  // L1
  const auto shell = AtThePrompt(Task("SLURM_PTY_PORT=40591 SLURM_JOB_NODELIST=node[0-7]"));
  EXPECT_FALSE(TaskOfSlurm(shell)->has_value());
  const auto hosts = HostsOfSlurm(shell);
  ASSERT_TRUE(hosts.ok() && hosts->has_value()) << hosts.status();
  EXPECT_EQ(Describe(**hosts), "node1:6 node2:6 (CPUs)");
  const auto job = ReadSlurmJob(shell, NoConfiguration);
  ASSERT_TRUE(job.ok() && job->has_value());
  EXPECT_FALSE((*job)->in_step || (*job)->in_script || (*job)->many_tasks);
  EXPECT_TRUE((*ReadSlurmJob(Task(""), NoConfiguration))->in_step);
  const char* four =
      "SLURM_PTY_PORT=40591 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_NTASKS=8";
  EXPECT_EQ(Describe(**HostsOfSlurm(AtThePrompt(Task(four)))), "node1:2 node2:2 (tasks)");

  for (const char* other : {"", "SLURM_PTY_PORT=40591 MUSTER_JOB_ID=job-1"}) {
    EXPECT_EQ(AtThePrompt(Task(other)), Task(other));
  }
}

TEST(Slurm, TheStepsOfAJobAndJobsThatFollowHavePortsOfTheirOwn) {
  std::set<uint16_t> ports;
  for (int job = 900; job < 910; ++job) {
    for (int step = 0; step < 37; ++step) {
      const auto task =
          TaskOfSlurm(Task(absl::StrCat("SLURM_JOB_ID=", job, " SLURM_STEP_ID=", step)));
      ports.insert((*task)->port);
    }
  }
  EXPECT_EQ(ports.size(), 370U);
  EXPECT_GE(*ports.begin(), 20000);
  EXPECT_LE(*ports.rbegin(), 28999);
  EXPECT_EQ((*TaskOfSlurm(Task(""), {5000, 5009}))->port, 5001);
  EXPECT_EQ((*TaskOfSlurm(Task(""), {5000, 5000}))->port, 5000);
}

class BadTask : public testing::TestWithParam<Bad> {};

TEST_P(BadTask, IsRefusedWithTheVariableAndTheWayOut) {
  const auto task = TaskOfSlurm(Task(GetParam().environment));
  ASSERT_EQ(task.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(task.status().message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Variables, BadTask,
    testing::Values(Bad{"SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0",
                        "4 times (SLURM_STEP_NUM_TASKS) on 2 nodes: want one a node "
                        "(srun --ntasks=2 --ntasks-per-node=1"},
                    Bad{"SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=a SLURM_PROCID=0",
                        "on 1 node: want one a node"},
                    Bad{"SLURM_STEP_NUM_TASKS=many SLURM_PROCID=0", "launch many times"},
                    Bad{"SLURM_STEP_NODELIST=node[1-", "SLURM_STEP_NODELIST=node[1-: "},
                    Bad{"SLURM_NODEID=2", "SLURM_NODEID=2: want 0..1; --hosts or --standalone"},
                    Bad{"SLURM_NODEID=-1", "SLURM_NODEID=-1: want 0..1"},
                    Bad{"SLURM_NODEID=", "SLURM_NODEID is not set"},
                    Bad{"SLURM_STEP_ID=x", "SLURM_STEP_ID=x: want 0.."},
                    Bad{"SLURM_STEP_ID= SLURM_STEPID=", "SLURM_STEP_ID is not set"},
                    Bad{"SLURM_JOB_ID=17.node0", "SLURM_JOB_ID=17.node0: want 0.."},
                    Bad{"SLURM_CPUS_ON_NODE=0", "SLURM_CPUS_ON_NODE=0: want 1.."},
                    Bad{"SLURM_CPUS_ON_NODE=6(x2)", "SLURM_CPUS_ON_NODE=6(x2): "},
                    Bad{"SLURM_GPUS_ON_NODE=some",
                        "SLURM_GPUS_ON_NODE=some: want a number of GPUs"}));

TEST(Slurm, ManyTasksOnANodeAreRefusedByTheFirstForAll) {
  const char* four = "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=";
  EXPECT_TRUE(absl::IsInvalidArgument(TaskOfSlurm(Task(absl::StrCat(four, 0))).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(TaskOfSlurm(Task(absl::StrCat(four, 3))).status()));
}

TEST(Slurm, OneStepStartsAnAgentOnEachHost) {
  EXPECT_THAT(
      SrunCommand({}, {"node1", "node7"}, "/opt/muster-agent"),
      ElementsAre("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--nodelist=node[1,7]",
                  "--overlap", "--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit=0", "--wait=0",
                  "--no-kill", "--export=ALL", "--job-name=muster", "/opt/muster-agent", "--dial"));
}

TEST(Slurm, AComponentAsksForItsOwnGpus) {
  const auto given =
      HostsOfSlurm(Env("SLURM_JOB_ID=3 SLURM_HET_SIZE=3 SLURM_GPUS_ON_NODE=2 "
                       "SLURM_JOB_NODELIST_HET_GROUP_0=a SLURM_GPUS_PER_TASK_HET_GROUP_0=1 "
                       "SLURM_NTASKS_HET_GROUP_0=2 SLURM_TASKS_PER_NODE_HET_GROUP_0=2 "
                       "SLURM_JOB_NODELIST_HET_GROUP_1=b,c SLURM_GPUS_HET_GROUP_1=8 "
                       "SLURM_JOB_NODELIST_HET_GROUP_2=d SLURM_JOB_CPUS_PER_NODE_HET_GROUP_2=5"));
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(Describe(**given), "a:2 b:4 c:4 d:5 (tasks, GPUs or CPUs)");
  EXPECT_THAT(SrunOptions(**given, {"a"}), testing::Contains("--gpus-per-node=2"));
  EXPECT_THAT(SrunOptions(**given, {"b", "c"}), testing::Contains("--gpus-per-node=4"));
  EXPECT_THAT(SrunOptions(**given, {"d"}),
              testing::Not(testing::Contains(testing::StartsWith("--gpus-per-node"))));
  EXPECT_EQ((*given)->gpus_of_task, 0U);  // not the same for all
}

TEST(Slurm, NodesWithGpusOfTheirOwnNumberHaveStepsOfTheirOwn) {
  const auto given =
      HostsOfSlurm(Env("SLURM_JOB_ID=3 SLURM_JOB_NODELIST=a,b SLURM_GPUS=4 SLURM_GPUS_ON_NODE=3 "
                       "SLURMD_NODENAME=a"));
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(Describe(**given), "a:3 b:1 (GPUs)");
  EXPECT_EQ((*given)->note, "");
  EXPECT_THAT(StepsFor(**given, {"a", "b"}), ElementsAre(ElementsAre("a"), ElementsAre("b")));
  EXPECT_THAT(SrunOptions(**given, {"a"}), testing::Contains("--gpus=3"));
  EXPECT_THAT(SrunOptions(**given, {"b"}), testing::Contains("--gpus=1"));
}

TEST(Slurm, TasksThatShareGpusTheyWereToHaveAloneAreNoted) {
  // As captured of sbatch -N2 -n4 --ntasks-per-gpu=1.
  const auto given = HostsOfSlurm(
      Env("SLURM_JOB_ID=3 SLURM_JOB_NODELIST=a,b SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x2) "
          "SLURM_NTASKS_PER_GPU=1 SLURM_GPUS_ON_NODE=3 SLURMD_NODENAME=a"));
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_THAT((*given)->note, HasSubstr("given b 1 GPU for 2 tasks, which share them"));
  const auto enough = HostsOfSlurm(
      Env("SLURM_JOB_ID=3 SLURM_JOB_NODELIST=a,b SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=2(x2) "
          "SLURM_GPUS_PER_TASK=1 SLURM_GPUS_ON_NODE=2 SLURMD_NODENAME=a"));
  EXPECT_EQ((*enough)->note, "");
}

TEST(Slurm, AnotherOrderOfTheRanksIsKnown) {
  const auto order = [](const char* more) {
    return (*HostsOfSlurm(Env(absl::StrCat("SLURM_JOB_ID=3 SLURM_JOB_NODELIST=a,b SLURM_NTASKS=4 "
                                           "SLURM_TASKS_PER_NODE=2(x2) ",
                                           more))))
        ->distribution;
  };
  EXPECT_EQ(order("SLURM_DISTRIBUTION=cyclic"), "SLURM_DISTRIBUTION=cyclic");
  EXPECT_EQ(order("SLURM_DISTRIBUTION=cyclic:block"), "SLURM_DISTRIBUTION=cyclic:block");
  EXPECT_EQ(order("SLURM_DISTRIBUTION=arbitrary"), "SLURM_DISTRIBUTION=arbitrary");
  EXPECT_EQ(order("SLURM_DISTRIBUTION=plane SLURM_DIST_PLANESIZE=1"), "SLURM_DISTRIBUTION=plane");
  for (const char* ours :
       {"", "SLURM_DISTRIBUTION=block", "SLURM_DISTRIBUTION=block:cyclic",
        "SLURM_DISTRIBUTION=plane SLURM_DIST_PLANESIZE=2",  // a node takes a plane
        // srun says so of the shell of salloc, asked or not
        "SLURM_DISTRIBUTION=cyclic SLURM_STEP_ID=4294967290 SLURM_STEP_NODELIST=a"}) {
    EXPECT_EQ(order(ours), "") << ours;
  }
}

TEST(Slurm, SrunSaysWhoseAgentsHaveFailed) {
  const StepEnd killed = SrunEnd("srun: error: node1: task 0: Killed");
  EXPECT_THAT(killed.hosts, ElementsAre("node1"));
  EXPECT_EQ(killed.how, "srun: error: node1: task 0: Killed");
  EXPECT_TRUE(killed.killed);
  EXPECT_FALSE(killed.by_itself);
  const StepEnd three = SrunEnd("srun: error: node[1-2,7]: tasks 0-1,3: Exited with exit code 1");
  EXPECT_THAT(three.hosts, ElementsAre("node1", "node2", "node7"));
  EXPECT_FALSE(three.killed);
  EXPECT_TRUE(three.by_itself);
  for (const char* line :
       {"", "srun: error: ", "srun: error: : task", "srun: error: node[1-: tasks 0-1: Killed",
        "srun: error: Unable to create step for job 3: Invalid node name", "task 0: error: node1",
        "srun: job 3: task 0: error: x"}) {
    EXPECT_THAT(SrunEnd(line).hosts, ElementsAre()) << line;
    EXPECT_EQ(SrunEnd(line).how, "") << line;
  }
}

TEST(Slurm, SrunSaysThatTheStepIsCancelled) {
  EXPECT_TRUE(SrunEnd("slurmstepd-node0: error: *** STEP 1.0 ON node0 CANCELLED AT "
                      "2026-11-30T03:06:12 ***")
                  .cancelled);
  EXPECT_FALSE(
      SrunEnd("slurmstepd: error: *** JOB 1 ON node0 CANCELLED AT 2026-11-30 ***").cancelled);
  EXPECT_FALSE(SrunEnd("srun: error: node1: task 0: Killed").cancelled);
}

TEST(Slurm, NoVariableOfTheJobChangesTheStep) {
  EXPECT_THAT(
      SrunEnvironment({"PATH=/bin", "SLURM_JOB_ID=3", "SLURM_NTASKS=6", "SLURM_CPUS_PER_TASK=2",
                       "SRUN_CPUS_PER_TASK=2", "SLURM_EXACT=1", "SLURM_STEP_ID=4", "SLURM_PROCID=0",
                       "SLURM_CONF=/x", "SLURM_ARRAY_TASK_ID=7", "SLURMISH=1",
                       "SLURM_JOB_NODELIST=a", "SLURM_SUBMIT_DIR=/y", "SLURM_EXPORT_ENV=NONE"}),
      ElementsAre("PATH=/bin", "SLURM_JOB_ID=3", "SLURM_CONF=/x", "SLURM_ARRAY_TASK_ID=7",
                  "SLURMISH=1", "SLURM_JOB_NODELIST=a", "SLURM_SUBMIT_DIR=/y"));
}

}  // namespace
}  // namespace muster
