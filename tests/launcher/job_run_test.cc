#include "launcher/job_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "launcher/options.h"
#include "launcher/resolve.h"
#include "proto/base/log.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(ConfigOf, NodesOfThisMachineHaveNamesForSentences) {
  EXPECT_THAT(ConfigOf(SpecOf("--standalone --nnodes 2 p")).expected,
              ElementsAre("node0", "node1"));
  EXPECT_THAT(ConfigOf(SpecOf("--hosts a,b p")).expected, ElementsAre("a", "b"));
}

TEST(ExitCodeAsShown, IsTheJobsUnlessItsOutputWasNotShown) {
  EXPECT_EQ(ExitCodeAsShown(0, false, ""), 0);
  EXPECT_EQ(ExitCodeAsShown(3, false, ""), 3);
  EXPECT_EQ(ExitCodeAsShown(0, false, /*lost=*/"disk full"), kExitFailed);
  EXPECT_EQ(ExitCodeAsShown(3, false, /*lost=*/"disk full"), 3);
  for (const int code : {0, 143}) {
    EXPECT_EQ(ExitCodeAsShown(code, /*nobody_reads=*/true, "disk full"), kExitNobodyReads);
  }
  for (const int code : {3, 129, 130}) {  // what came first is the cause
    EXPECT_EQ(ExitCodeAsShown(code, /*nobody_reads=*/true, "disk full"), code);
  }
}

TEST(TellExitCodeAsShown, SaysWhyAJobThatEndedWellDidNot) {
  std::string log;
  SetLogSink([&log](LogLevel, absl::string_view text) { absl::StrAppend(&log, text, "\n"); });
  EXPECT_EQ(TellExitCodeAsShown(0, false, ""), 0);
  EXPECT_EQ(TellExitCodeAsShown(3, false, "stdout: disk full"), 3);
  EXPECT_EQ(TellExitCodeAsShown(0, true, "stdout: disk full"), kExitNobodyReads);
  EXPECT_EQ(log, "");
  EXPECT_EQ(TellExitCodeAsShown(0, false, "stdout: disk full"), kExitFailed);
  EXPECT_EQ(log, "the job ended well, but some of its output is lost: stdout: disk full\n");
  SetLogSink(nullptr);
}

TEST(WhatSrunAwaits, IsTheNodeThatSlurmHasNotGivenUp) {
  JobSpec spec = SpecOf("p", "", SlurmTask("0"));
  JobReport report;
  report.cause = CauseKind::kNodeLost;
  report.lost_node = "node2";
  EXPECT_EQ(
      WhatSrunAwaits(spec, report),
      "srun waits for node2 until Slurm itself finds it down (SlurmdTimeout); scancel 17 ends "
      "the job at once");
  EXPECT_EQ(WhatSrunAwaits(SpecOf("p"), report), "");
  report.cause = CauseKind::kUser;
  EXPECT_EQ(WhatSrunAwaits(spec, report), "");
}

TEST(TermsOf, WhoIsTalkedToOfWorkersThatDoNothing) {
  EXPECT_EQ(TermsOf(SpecOf("p")).tell_idle, absl::Minutes(5));
  EXPECT_EQ(TermsOf(SpecOf("--tell-idle 1h p")).tell_idle, absl::Hours(1));
  EXPECT_EQ(TermsOf(SpecOf("--tell-idle 0 p")).tell_idle, absl::InfiniteDuration());
  // Who sits at a worker's terminal knows that it waits.
  EXPECT_EQ(TermsOf(SpecOf("--pty 0 p")).tell_idle, absl::InfiniteDuration());
  EXPECT_EQ(TermsOf(SpecOf("--pty 0 --tell-idle 3 p")).tell_idle, absl::Seconds(3));
}

TEST(ManyWorkers, OneWorkerOnOneHostIsNotMany) {
  EXPECT_FALSE(ManyWorkers(SpecOf("--hosts a p")));
  EXPECT_TRUE(ManyWorkers(SpecOf("--hosts a -n 2 --oversubscribe p")));
  EXPECT_TRUE(ManyWorkers(SpecOf("--hosts a --nproc-per-node auto p")));
  EXPECT_TRUE(ManyWorkers(SpecOf("--hosts a,b p")));
  EXPECT_TRUE(ManyWorkers(SpecOf("--standalone --nnodes 2 p")));
}

// In a Slurm job; what `launch line` is there.
JobSpec InSlurm(absl::string_view line, Environment environment) {
  JobSpec spec = Ok(Words(line));
  environment["SLURM_JOB_ID"] = "17";
  EXPECT_TRUE(ResolveHosts(spec, NoFile, environment).ok());
  return spec;
}

TEST(InSlurm, AStopTakesNoLongerThanTheJobHas) {
  EXPECT_EQ(GraceNow(SpecOf("p")), kGrace);
  EXPECT_EQ(TermsOf(InSlurm("p", {})).grace, absl::Seconds(25));
  EXPECT_EQ(GraceNow(InSlurm("p", {})), absl::Seconds(25));
  EXPECT_EQ(TimeToStop(InSlurm("p", {})), absl::Seconds(25));
  const std::string over = "1000";  // long ago
  EXPECT_EQ(GraceNow(InSlurm("p", {{"SLURM_JOB_END_TIME", over}})), absl::Seconds(25));
  const JobSpec said = InSlurm("--grace 90 p", {{"SLURM_JOB_END_TIME", over}});
  EXPECT_EQ(GraceNow(said), absl::Seconds(90));
  EXPECT_EQ(TermsOf(said).grace, absl::Seconds(90));
  EXPECT_EQ(TimeToStop(said), kSlurmKillWait);
}

TEST(InSlurm, RoundsGoOnWhereTheJobIsRunAgain) {
  EXPECT_EQ(ConfigOf(SpecOf("p")).epoch, 1u);
  EXPECT_EQ(ConfigOf(InSlurm("p", {})).epoch, 1u);
  const JobSpec again = InSlurm("p", {{"SLURM_RESTART_COUNT", "2"}});
  EXPECT_EQ(ConfigOf(again).epoch, 3u);
  EXPECT_THAT(again.notes,
              ElementsAre("Slurm has restarted this job 2 times (SLURM_RESTART_COUNT)"));
}

TEST(InSlurm, ADetachedJobEndsWithTheSchedulers) {
  EXPECT_THAT(
      InSlurm("--detach p", {}).notes,
      ElementsAre(StartsWith("--detach: Slurm job 17 ends with its script or shell, and ")));
  EXPECT_THAT(InSlurm("p", {}).notes, IsEmpty());
  EXPECT_THAT(SpecOf("--detach p").notes, IsEmpty());
  JobSpec in_pbs = Ok(Words("--standalone --nnodes 2 --detach p"));
  ASSERT_TRUE(ResolveHosts(in_pbs, NoFile, {{"PBS_JOBID", "21.node0"}}).ok());
  EXPECT_THAT(in_pbs.notes,
              ElementsAre(StartsWith("--detach: PBS job 21.node0 ends with its script or shell")));
}

TEST(InSlurm, ALifeIsKeptByTheNamesThatSlurmHas) {
  JobSpec spec;
  spec.life.emplace();
  spec.life->hosts = {"n0", "n1"};
  spec.life->history = {"before"};
  RoundState state;
  state.round = RoundId{2, 3};
  state.report.history = {"now"};
  const std::pair<int32_t, const char*> nodes[] = {{1, "n1.lab"}, {0, "n0.lab"}, {-1, "late.lab"}};
  for (const auto& [place, hostname] : nodes) {
    const NodeId id{static_cast<uint32_t>(state.members.size() + 1)};
    state.nodes[id].join.node_rank = place;
    state.nodes[id].join.hostname = hostname;
    state.members.emplace_back().node = id;
  }
  EXPECT_EQ(LifeOf(spec, state), (JobLife{"2.3", {"n1", "n0", "late.lab"}, {"before", "now"}}));
}

TEST(InSlurm, WhatMayBeStartedAgainIsNotOver) {
  EXPECT_TRUE(IsLast(CauseKind::kNone) && IsLast(CauseKind::kWorker));
  EXPECT_FALSE(IsLast(CauseKind::kUser) || IsLast(CauseKind::kNodeLost));
}

}  // namespace
}  // namespace muster
