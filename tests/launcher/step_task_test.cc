// Where a job runs by the words of other worlds: a scheduler's, mpirun's, Kubernetes'.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/scheduler.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StepTask, ThatSaysWhereIsAJobOfItsOwn) {
  const auto notes = [](const std::string& words, const char* node) {
    return SpecOf(words, "", SlurmTask(node)).notes;
  };
  const std::string each = "tasks runs this whole job, as --";
  EXPECT_THAT(notes("--rdzv-endpoint n1:29400 p", "0"),
              Contains(AllOf(HasSubstr(each + "rdzv-endpoint"), HasSubstr("--nnodes 2"))));
  EXPECT_THAT(notes("--hosts a,b p", "0"), Contains(HasSubstr(each + "hosts")));
  EXPECT_THAT(notes("--hosts a,b p", "1"), Not(Contains(HasSubstr(each))));  // said once
  for (const char* meant : {"p", "--standalone p", "--nnodes 2 --rdzv-endpoint n1:29400 p"}) {
    EXPECT_THAT(notes(meant, "0"), Not(Contains(HasSubstr(each)))) << meant;
  }
}

TEST(StepTask, WaitsForTheOthersAsLongAsSrunTakesToStartThem) {
  const auto waits = [](const std::string& words, const Environment& environment) {
    return SpecOf(words, "", environment).rendezvous.join_timeout;
  };
  EXPECT_EQ(waits("p", SlurmTask("0")), absl::Minutes(2));
  EXPECT_EQ(waits("--rdzv-conf join_timeout=900 p", SlurmTask("1")), absl::Minutes(15));
  EXPECT_EQ(waits("--nnodes 2 --rdzv-endpoint n1:29400 p", SlurmTask("0")), absl::Minutes(10));
}

// In the script of a job of Slurm's with two tasks on each of two nodes, and `more`.
JobSpec OfTasks(const std::string& words, Environment more) {
  more.insert({{"SLURM_JOB_ID", "7"},
               {"SLURM_JOB_NODELIST", "n[1-2]"},
               {"SLURM_NTASKS", "4"},
               {"SLURM_TASKS_PER_NODE", "2(x2)"}});
  return SpecOf(words, "rank 0=n1 slot=0\nrank 1=n2 slot=0\n", more);
}

TEST(TasksOfSlurm, SeeTheirOwnGpusWhereSrunsWould) {
  const auto mode = [](const std::string& words, Environment more) {
    return OfTasks(words, std::move(more)).plan.binding;
  };
  const Environment one = {{"SLURM_GPUS_PER_TASK", "1"}};
  for (const char* words : {"p", "-n 4 p", "--nproc-per-node 2 p", "--nproc-per-node 1 p"}) {
    EXPECT_EQ(mode(words, one).gpu_mode, GpuMode::kOneIfEnough) << words;
    EXPECT_EQ(mode(words, one).gpus_per_worker, 0U) << words;
  }
  EXPECT_EQ(mode("p", {{"SLURM_GPUS_PER_TASK", "2"}}).gpus_per_worker, 2U);
  EXPECT_EQ(mode("p", {{"SLURM_GPU_BIND", "single:1"}}).gpu_mode, GpuMode::kOneIfEnough);
  for (const char* otherwise : {"--gpu-mode all p", "--gpus-per-proc 1 p", "--nproc-per-node 4 p",
                                "--nproc-per-node auto p", "--virtual-local-rank p"}) {
    EXPECT_EQ(mode(otherwise, one).gpu_mode, GpuMode::kAll) << otherwise;
  }
  EXPECT_EQ(mode("--gpu-mode uuid p", one).gpu_mode, GpuMode::kUuid);
  EXPECT_EQ(mode("p", {{"SLURM_GPUS_PER_NODE", "2"}}).gpu_mode, GpuMode::kAll);
  EXPECT_THAT(OfTasks("p", one).notes,
              Contains("Slurm job 7: each worker sees its own GPU only, where its node has enough, "
                       "as SLURM_GPUS_PER_TASK=1 says (--gpu-mode all: all of its node)"));
}

TEST(TasksOfSlurm, InAnotherOrderOfRanksAreNoted) {
  const auto notes = [](const std::string& words, const char* distribution) {
    return OfTasks(words, {{"SLURM_DISTRIBUTION", distribution}}).notes;
  };
  const auto said = Contains(
      AllOf(HasSubstr("SLURM_DISTRIBUTION=cyclic has no effect"), HasSubstr("--rankfile FILE")));
  EXPECT_THAT(notes("p", "cyclic"), said);
  EXPECT_THAT(notes("p", "block"), Not(Contains(HasSubstr("SLURM_DISTRIBUTION"))));
  for (const char* same : {"--nproc-per-node 1 p", "--nnodes 1 p", "--rankfile f p"}) {
    EXPECT_THAT(notes(same, "cyclic"), Not(said)) << same;
  }
}

TEST(HostsInAJob, AreStartedBesideIt) {
  const Environment slurm = {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-2]"}};
  const auto notes = [](const std::string& words, const Environment& environment) {
    return SpecOf(words, "n1\nn2\n", environment).notes;
  };
  const std::string beside = "its nodes are started by ssh, beside ";
  EXPECT_THAT(notes("--hosts n1,n2 p", slurm),
              Contains(AllOf(HasSubstr("--hosts n1,n2: " + beside), HasSubstr("Slurm job 7, "))));
  EXPECT_THAT(notes("--hostfile f p", {{"PBS_JOBID", "3.s"}}),
              Contains(AllOf(HasSubstr("--hostfile f: " + beside), HasSubstr("PBS job 3.s, "))));
  EXPECT_THAT(notes("--hosts n1 p", slurm),
              Contains(AllOf(HasSubstr("--hosts n1: " + beside), HasSubstr("--nnodes N"),
                             HasSubstr("--exclude LIST"))));
  Environment on_n1 = slurm;
  on_n1["SLURMD_NODENAME"] = "n1";
  EXPECT_THAT(notes("--hosts n1 p", on_n1), Not(Contains(HasSubstr(beside))));  // no ssh
  Environment submitted_on_n1 = slurm;
  submitted_on_n1["HOSTNAME"] = "n1";
  EXPECT_THAT(notes("--hosts n1 p", submitted_on_n1), Contains(HasSubstr(beside)));
  submitted_on_n1[kOwnHostname] = "n1.example.org";
  EXPECT_THAT(notes("--hosts n1 p", submitted_on_n1), Not(Contains(HasSubstr(beside))));
  for (const char* within : {"p", "--standalone p", "--hosts localhost p"}) {
    EXPECT_THAT(notes(within, slurm), Not(Contains(HasSubstr(beside)))) << within;
  }
  EXPECT_THAT(notes("--hosts n1,n2 p", {}), Not(Contains(HasSubstr(beside))));
  EXPECT_THAT(notes("--hosts n1,n2 p", SlurmTask("0")), Not(Contains(HasSubstr(beside))));
}

TEST(Pods, BeyondTheNodesAreNamedByTheirIndex) {
  const auto spec =
      Resolve(Words("--nnodes 2 p"), "10.0.0.7 train-2.train.ns.svc.cluster.local train-2\n",
              {{"JOB_COMPLETION_INDEX", "2"}, {"HOSTNAME", "train-2"}});
  EXPECT_EQ(spec.status().message(),
            "JOB_COMPLETION_INDEX=2 (the Job's `completions`): want 0..1 with --nnodes 2");
}

TEST(MpirunsWords, HaveAHint) {
  EXPECT_THAT(Error({"--bynode", "p"}), HasSubstr("say --map-by node"));
  EXPECT_THAT(Error({"-gwdir", "/tmp", "p"}), HasSubstr("say -wdir"));
  EXPECT_THAT(Error({"-print-rank-map", "p"}), HasSubstr("say --plan"));
  EXPECT_THAT(Error({"-output-proxy", "p"}), HasSubstr("say --verbose"));
}

TEST(SrunsWords, HaveAHintAlsoWithTheirValueAttached) {
  EXPECT_THAT(Error({"-N2", "p"}), HasSubstr("unknown option '-N2'; it means workers per node to"));
  EXPECT_THAT(Error({"-c4", "p"}), HasSubstr("OMP_NUM_THREADS follows"));
  EXPECT_THAT(Error({"--nodelist=a", "p"}),
              HasSubstr("in a job of Slurm's, --nnodes and --exclude"));
  EXPECT_THAT(Error({"--multi-prog", "f"}), HasSubstr("--configfile FILE"));
}

}  // namespace
}  // namespace muster
