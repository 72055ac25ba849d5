// What --plan adds to the plan on this machine, whatever it is called and has.
#include "launcher/look_first.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/io/node_facts.h"
#include "launcher/job_run.h"
#include "launcher/remote_starter.h"
#include "launcher/resolve.h"
#include "launcher/schedule/slurm_gpus.h"
#include "proto/base/log.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

LaunchPlan Plan(absl::string_view line) { return *PlanFromHere(SpecOf(line), "/x/muster-agent"); }

TEST(PlanFromHere, ANodeHereIsAChildAndAnotherIsReachedAsTheUserSays) {
  const LaunchPlan plan = Plan("--hosts localhost,eva@far.invalid p");
  EXPECT_EQ(plan.nodes[0].starter, "local");
  EXPECT_THAT(plan.nodes[0].command, ElementsAre("/x/muster-agent", "--stdio"));
  EXPECT_EQ(plan.nodes[1].starter, "ssh");
  EXPECT_THAT(plan.nodes[1].command, Contains("eva@far.invalid"));
  EXPECT_EQ(plan.way, "hosts");
  EXPECT_EQ(plan.nodes_min, 2u);
}

TEST(PlanFromHere, TheEnvironmentIsSentOnlyWhereANodeIsElsewhere) {
  setenv("PATH", "/bin:/usr/bin", 0);
  EXPECT_THAT(Plan("--hosts far.invalid p").environment, Not(IsEmpty()));
  EXPECT_THAT(Plan("--hosts localhost p").environment, IsEmpty());
  EXPECT_THAT(Plan("--standalone --nnodes 2 p").environment, IsEmpty());
}

TEST(PlanFromHere, OnlyNodesHereAreCountedHere) {
  const LaunchPlan plan = Plan("--hosts localhost,far.invalid --nproc-per-node cpu p");
  EXPECT_GT(plan.nodes[0].workers, 0u);
  EXPECT_EQ(plan.nodes[1].workers, 0u);
  EXPECT_EQ(plan.nodes[1].rank_first, plan.nodes[0].workers);
  EXPECT_EQ(plan.world_size, 0u);
  EXPECT_GT(Plan("--nproc-per-node cpu p").world_size, 0u);
  EXPECT_GT(Plan("--standalone --nnodes 2 --nproc-per-node cpu p").world_size, 0u);
  const LaunchPlan typed = Plan("--nnodes 2 --nproc-per-node cpu --node-rank 1 --master-addr a p");
  EXPECT_EQ(typed.nodes[0].workers, 0u);
  EXPECT_GT(typed.nodes[1].workers, 0u);
}

TEST(PlanFromHere, UnderPbsEachOtherHostHasItsPbsdsh) {
  const Environment script = {{"PBS_JOBID", "21.node0"}, {"PBS_NODEFILE", "/aux/21"}};
  const auto plan =
      PlanFromHere(SpecOf("p", Hostname() + ".example.org\nfar\nfar\n", script), "/x/muster-agent");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->nodes[0].starter, "local");
  EXPECT_EQ(plan->nodes[1].starter, "pbsdsh");
  EXPECT_THAT(plan->nodes[1].command, ElementsAre("pbsdsh", "-h", "far", "--", "/x/muster-agent",
                                                  "--dial", "far", "JOB", "KEY", "ADDRESS:PORT"));
  EXPECT_THAT(plan->environment, Not(IsEmpty()));
  EXPECT_THAT(plan->notes,
              ElementsAre("PBS job 21.node0: 1,2 workers on 2 nodes, as many as its lines in "
                          "PBS_NODEFILE (--nproc-per-node says otherwise)"));
}

// scontrol is asked only where the answer is used, and one of any length is read.
TEST(PlaceEnvironment, HowManyGpusEachNodeHasIsAskedOfScontrol) {
  char folder[] = "/tmp/muster-look-first-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string asked = absl::StrCat(folder, "/asked");
  std::ofstream(absl::StrCat(folder, "/scontrol"))
      << "#!/bin/sh\n: >" << asked << "\necho JobId=3 Nodes=a GRES=gpu:2 \"$(printf '%70000s')\" "
      << "Nodes=b,c GRES=gpu:1\n";
  chmod(absl::StrCat(folder, "/scontrol").c_str(), 0700);
  const std::string path = getenv("PATH") == nullptr ? "/bin:/usr/bin" : getenv("PATH");
  setenv("PATH", absl::StrCat(folder, ":", path).c_str(), 1);
  setenv("SLURM_JOB_ID", "3", 1);
  setenv("SLURM_JOB_NODELIST", "a,b,c", 1);
  setenv("SLURM_GPUS", "4", 1);
  EXPECT_FALSE(PlaceEnvironment(/*ask=*/false).contains(kGpusOfNodes));
  EXPECT_FALSE(std::filesystem::exists(asked));
  EXPECT_EQ(PlaceEnvironment(/*ask=*/true)[kGpusOfNodes], "2,1(x2)");
  EXPECT_TRUE(std::filesystem::exists(asked));
  for (const char* name : {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_GPUS"}) {
    unsetenv(name);
  }
  setenv("PATH", path.c_str(), 1);
  std::filesystem::remove_all(folder);
}

// `--config FIFO`: who forgot the writer is not left in front of a silent terminal.
TEST(ReadJobFile, ThatNobodyWritesToIsSaid) {
  char folder[] = "/tmp/muster-look-first-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = absl::StrCat(folder, "/fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::string said;
  SetLogSink([&](LogLevel, absl::string_view text) {
    absl::StrAppend(&said, text);
    std::ofstream(path) << "nnodes: 2\n";  // it has a reader
  });
  EXPECT_EQ(ReadJobFile(path).value(), "nnodes: 2\n");
  SetLogSink(nullptr);
  EXPECT_EQ(said, path +
                      ": waits for its text, which nobody has written to the end yet (Ctrl-C "
                      "ends this)");
  std::filesystem::remove_all(folder);
}

// Another user, or the sshd of a container, is another place also under this machine's name.
TEST(StartsHere, OnlyAsThePresentUserAndWithoutAPort) {
  const JobSpec spec = SpecOf("--hostfile f p", "localhost\nlocalhost port=2222\n");
  ASSERT_EQ(spec.nodes.size(), 2u);
  EXPECT_TRUE(StartsHere(spec, spec.nodes[0].host));
  EXPECT_FALSE(StartsHere(spec, spec.nodes[1].host));
  const JobSpec user = SpecOf("--hosts nosuchuser@localhost p");
  EXPECT_FALSE(StartsHere(user, user.nodes[0].host));
}

// What Slurm signals, and gives time to when the script's shell dies, is a step.
TEST(StartsHere, NotWhereABatchScriptHasSeveralNodes) {
  JobSpec spec = SpecOf("--hostfile f p", "localhost\nelsewhere\n");
  spec.given_hosts.emplace();
  spec.given_hosts->here = "localhost";
  EXPECT_TRUE(StartsHere(spec, spec.nodes[0].host));
  spec.slurm.emplace();
  EXPECT_TRUE(StartsHere(spec, spec.nodes[0].host));
  spec.slurm->in_script = true;
  EXPECT_FALSE(StartsHere(spec, spec.nodes[0].host));
  EXPECT_TRUE(IsHere(spec, spec.nodes[0].host));
  spec.nodes.pop_back();
  EXPECT_TRUE(StartsHere(spec, spec.nodes[0].host));
  spec.slurm->lone_step = true;
  EXPECT_FALSE(StartsHere(spec, spec.nodes[0].host));
  EXPECT_TRUE(InLoneStep(spec));
  spec.slurm->in_script = false;
  EXPECT_TRUE(StartsHere(spec, spec.nodes[0].host));
}

// The agent there sees what a child of ours would.
TEST(AgentsCommand, InAStepOfOneNodeHasOurGpus) {
  JobSpec spec = SpecOf("--hostfile f p", "localhost\n");
  spec.given_hosts.emplace();
  spec.slurm.emplace();
  spec.slurm->in_script = spec.slurm->lone_step = true;
  setenv("CUDA_VISIBLE_DEVICES", "1,3", /*replace=*/1);
  const auto command = AgentsCommand(spec, {"localhost"}, "/opt/muster-agent");
  EXPECT_THAT(std::vector<std::string>(command.end() - 4, command.end()),
              ElementsAre("env", "CUDA_VISIBLE_DEVICES=1,3", "/opt/muster-agent", "--dial"));
  spec.slurm->lone_step = false;
  EXPECT_THAT(AgentsCommand(spec, {"localhost"}, "/opt/muster-agent"), Not(Contains("env")));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace muster
