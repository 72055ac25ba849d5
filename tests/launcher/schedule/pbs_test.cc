#include "launcher/schedule/pbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "proto/base/limits.h"

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

constexpr char kScript[] =
    "PBS_ENVIRONMENT=PBS_BATCH PBS_JOBID=21.node0 PBS_NODENUM=0 PBS_TASKNUM=1 NCPUS=4 "
    "OMP_NUM_THREADS=4 PBS_O_WORKDIR=/scratch/run HOME=/home/user "
    "PBS_NODEFILE=/var/spool/pbs/aux/21.node0";

// With the node file of `lines`, separated by blanks.
absl::StatusOr<std::optional<GivenHosts>> Given(absl::string_view environment,
                                                absl::string_view lines) {
  return HostsOfPbs(Env(environment), [lines](const std::string& path) {
    EXPECT_EQ(path, "/var/spool/pbs/aux/21.node0");
    return absl::StrCat(absl::StrReplaceAll(lines, {{" ", "\n"}}), "\n");
  });
}

struct Case {
  const char* what;
  const char* more;  // of the environment
  const char* lines;
  const char* hosts;
};

class PbsJob : public testing::TestWithParam<Case> {};

// As captured from OpenPBS 23.06, but for Torque's.
TEST_P(PbsJob, HasHostsAndSlots) {
  const auto given = Given(absl::StrCat(kScript, GetParam().more), GetParam().lines);
  ASSERT_TRUE(given.ok()) << given.status();
  ASSERT_TRUE(given->has_value());
  EXPECT_EQ((*given)->scheduler, Scheduler::kPbs);
  std::vector<std::string> hosts;
  for (const HostEntry& host : (*given)->hosts) {
    EXPECT_TRUE(host.slots_given);
    hosts.push_back(absl::StrCat(host.name, ":", host.slots));
  }
  EXPECT_EQ(absl::StrCat(absl::StrJoin(hosts, " "), " (", (*given)->slots_are, ")"),
            GetParam().hosts);
  EXPECT_EQ((*given)->job, "PBS job 21.node0");
}

INSTANTIATE_TEST_SUITE_P(
    Captured, PbsJob,
    testing::Values(
        Case{"select=2:ncpus=4:mpiprocs=3", "", "node0 node0 node0 node1 node1 node1",
             "node0:3 node1:3 (lines in PBS_NODEFILE)"},
        Case{"select=2:ncpus=1", "", "node0 node1",
             "node0:1 node1:1 (lines in PBS_NODEFILE: one a node, as without mpiprocs)"},
        Case{"select=1:ncpus=2:mpiprocs=2+1:ncpus=1", "", "node0 node0 node1",
             "node0:2 node1:1 (lines in PBS_NODEFILE)"},
        Case{"chunks dealt to hosts in turn", "", "node7 node1 node7 node1 node1",
             "node7:2 node1:3 (lines in PBS_NODEFILE)"},
        Case{"four chunks on one host", "", "node0 node0 node0 node0",
             "node0:4 (lines in PBS_NODEFILE)"},
        Case{"one line", "", "node0",
             "node0:1 (lines in PBS_NODEFILE: one a node, as without mpiprocs)"},
        Case{"names with zeros and a domain", "", "n007.hpc.example.org n008.hpc.example.org",
             "n007.hpc.example.org:1 n008.hpc.example.org:1 (lines in PBS_NODEFILE: one a node, as "
             "without "
             "mpiprocs)"},
        Case{"blank lines", "", " node0  node0 ", "node0:2 (lines in PBS_NODEFILE)"},
        Case{"Torque, nodes=2:ppn=2", " PBS_NUM_PPN=2 PBS_NP=4", "a a b b",
             "a:2 b:2 (lines in PBS_NODEFILE)"},
        Case{"a Torque that writes each host once", " PBS_NUM_PPN=16 PBS_NP=32", "a b",
             "a:16 b:16 (PBS_NUM_PPN)"}));

TEST(Pbs, AJobOfAnArrayHasItsIndexInItsName) {
  const auto given = Given(absl::StrReplaceAll(kScript, {{"JOBID=21.", "JOBID=7[2]."}}), "node0");
  ASSERT_TRUE(given.ok() && given->has_value());
  EXPECT_EQ((*given)->job, "PBS job 7[2].node0");
}

TEST(Pbs, OutsideOfAJobThereIsNothing) {
  for (const char* none : {"", "PBS_NODEFILE=/x", "PBS_JOBID= PBS_NODEFILE=/x",
                           "PBS_JOBID=3 PBS_ENVIRONMENT=PBS_BATCH", "PBS_JOBID=3 PBS_NODEFILE=",
                           "PBS_JOBID=3 PBS_NODEFILE=/x SLURM_JOB_ID=3",
                           "PBS_JOBID=3 PBS_NODEFILE=/x MUSTER_JOB_ID=job-1"}) {
    const auto given = Given(none, "a");
    ASSERT_TRUE(given.ok()) << none;
    EXPECT_FALSE(given->has_value()) << none;
  }
}

struct Bad {
  const char* more;
  const char* lines;
  const char* says;
};

class BadPbs : public testing::TestWithParam<Bad> {};

TEST_P(BadPbs, IsRefusedWithTheVariableAndTheWayOut) {
  const auto given = Given(absl::StrCat(kScript, GetParam().more), GetParam().lines);
  ASSERT_EQ(given.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string said(given.status().message());
  EXPECT_THAT(said, HasSubstr(GetParam().says));
  EXPECT_THAT(said, HasSubstr("--hosts or --standalone"));
}

INSTANTIATE_TEST_SUITE_P(
    Variables, BadPbs,
    testing::Values(Bad{"", "", "PBS_NODEFILE: /var/spool/pbs/aux/21.node0: names no host"},
                    Bad{"", "node0 <html>\n", "PBS_NODEFILE: /var/spool/pbs/aux/21.node0:2: "},
                    Bad{"", "node0 -oProxyCommand=x", "21.node0:2: "},
                    Bad{"", "n[1-99999]", "PBS_NODEFILE: "},
                    Bad{" PBS_NUM_PPN=many", "a b", "PBS_NUM_PPN=many: want 1.."},
                    Bad{" PBS_NUM_PPN=0", "a b", "PBS_NUM_PPN=0: want 1.."}));

TEST(Pbs, ANodeFileThatCannotBeReadIsNamed) {
  const auto given = HostsOfPbs(
      Env(kScript), [](const std::string&) { return absl::NotFoundError("No such file"); });
  EXPECT_EQ(given.status().message(),
            "PBS_NODEFILE=/var/spool/pbs/aux/21.node0: No such file (only the job's first host has "
            "it); --hosts or --standalone says where to run without PBS's words");
}

TEST(Pbs, MoreLinesThanAHostMayHaveAreRefused) {
  std::string lines;
  for (uint32_t i = 0; i <= kWorkersPerNodeMax; ++i) {
    lines += "a ";
  }
  EXPECT_THAT(std::string(Given(kScript, lines).status().message()), HasSubstr("PBS_NODEFILE: "));
}

// With the file on other hosts, without on the first.
TEST(Pbs, ATaskOfPbsdshIsRefusedWithTheWayOut) {
  for (const char* task : {"PBS_JOBID=3 PBS_TASKNUM=20000001 PBS_NODEFILE=/x",
                           "PBS_JOBID=3 PBS_TASKNUM=2 PBS_NODENUM=0"}) {
    const auto given = Given(task, "a");
    ASSERT_EQ(given.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(given.status().message()), HasSubstr("leave pbsdsh out"));
  }
}

TEST(Pbs, OnlyABatchScriptBeginsElsewhereThanWhereItWasHandedIn) {
  EXPECT_EQ(SubmitFolder(Env(kScript)), "/scratch/run");
  for (const char* none :
       {"", "PBS_O_WORKDIR=/a PBS_ENVIRONMENT=PBS_BATCH",
        "PBS_JOBID=3 PBS_O_WORKDIR=/a PBS_ENVIRONMENT=PBS_INTERACTIVE",
        "PBS_JOBID=3 PBS_ENVIRONMENT=PBS_BATCH",
        "PBS_JOBID=3 PBS_O_WORKDIR=/a PBS_ENVIRONMENT=PBS_BATCH MUSTER_JOB_ID=job-1"}) {
    EXPECT_EQ(SubmitFolder(Env(none)), "") << none;
  }
}

TEST(Pbs, EachHostHasACommandOfItsOwn) {
  EXPECT_THAT(PbsdshCommand("node1", "/opt/muster-agent", {"job-1", "cookie:00", "10.0.0.1:4000"}),
              ElementsAre("pbsdsh", "-h", "node1", "--", "/opt/muster-agent", "--dial", "node1",
                          "job-1", "cookie:00", "10.0.0.1:4000"));
}

TEST(Pbs, PbsdshSaysHowItsTaskHasEnded) {
  EXPECT_EQ(TaskEnd("pbsdsh: task 0x00000000 exit status 7").how,
            "the agent ended with status 7; what it said is in the job's output");
  EXPECT_FALSE(TaskEnd("pbsdsh: task 0x00000000 exit status 7").killed);
  const StepEnd killed = TaskEnd("pbsdsh: task 0x00000001 exit status 265");
  EXPECT_EQ(killed.how, "the agent was ended by SIGKILL");
  EXPECT_TRUE(killed.killed);
  EXPECT_FALSE(TaskEnd("pbsdsh: task 0x00000001 exit status 271").killed);  // SIGTERM
  EXPECT_THAT(TaskEnd("pbsdsh: task 0x00000000 exit status 254").how, HasSubstr("same path"));
  for (const char* line :
       {"", "pbsdsh: tm_init failed, rc = TM_ESYSTEM (17000)", "task exit status",
        "pbsdsh: task 0x00000000 exit status ", "exit status 7 of task 1"}) {
    EXPECT_EQ(TaskEnd(line).how, "") << line;
  }
}

}  // namespace
}  // namespace muster
