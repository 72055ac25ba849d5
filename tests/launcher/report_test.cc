#include "launcher/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ExitRecord Exit(uint32_t rank, ExitKind kind, int32_t code, bool stopped = false) {
  ExitRecord out;
  out.round = {1, 2};
  out.hostname = "node1";
  out.exit.rank = Rank{rank};
  out.exit.local_rank = LocalRank{rank % 2};
  out.exit.pid = static_cast<int32_t>(4000 + rank);
  out.exit.kind = kind;
  out.exit.code = code;
  out.exit.stopped_by_us = stopped;
  out.exit.ran_for = absl::Milliseconds(1250);
  return out;
}

JobReport Failed(const ExitRecord& first) {
  JobReport out;
  out.ended = true;
  out.exit_code = first.exit.ExitCode();
  out.cause = CauseKind::kWorker;
  out.headline = "rank 3 on node1 failed";
  out.first = first;
  out.exits = {first};
  return out;
}

TEST(ReportText, NothingToSayWhenAllWentWell) {
  JobReport report;
  report.ended = true;
  EXPECT_EQ(ReportText(report, "job1"), "");
}

TEST(CallersErrorText, IsWhatTheFirstCausesFileSays) {
  ExitRecord first = Exit(3, ExitKind::kSignaled, SIGSEGV);
  first.exit.error_message = "ValueError: \xff boom";
  JobReport report = Failed(first);
  const nlohmann::json said =
      nlohmann::json::parse(CallersErrorText(report, absl::FromUnixSeconds(1700000000)));
  EXPECT_EQ(said["message"]["message"], "ValueError: \xef\xbf\xbd boom");
  EXPECT_EQ(said["message"]["errorCode"], 128 + SIGSEGV);
  EXPECT_EQ(said["message"]["extraInfo"]["timestamp"], "1700000000");

  report.cause = CauseKind::kNodeLost;
  EXPECT_EQ(CallersErrorText(report, absl::UnixEpoch()), "");
  EXPECT_EQ(CallersErrorText(Failed(Exit(3, ExitKind::kExited, 3)), absl::UnixEpoch()), "");
}

TEST(ReportText, FirstCauseItsLastWordsAndWhoFollowed) {
  ExitRecord first = Exit(3, ExitKind::kExited, 3);
  first.exit.stderr_tail = "Traceback\n  boom";
  first.exit.error_message = "ValueError: boom\n";
  JobReport report = Failed(first);
  report.exits.push_back(Exit(7, ExitKind::kExited, 1));
  report.exits.push_back(Exit(5, ExitKind::kSignaled, SIGSEGV));
  report.exits.push_back(Exit(2, ExitKind::kSignaled, SIGTERM, true));
  report.exits.push_back(Exit(0, ExitKind::kSignaled, SIGTERM, true));
  report.exits.push_back(Exit(1, ExitKind::kSignaled, SIGTERM, true));
  report.exits.push_back(Exit(4, ExitKind::kExited, 0, true));  // ended well all the same
  report.history = {"round 1.1 ended because node2 was lost"};
  EXPECT_EQ(ReportText(report, "job1"),
            "muster: job job1: rank 3 on node1 failed\n"
            "  its error file says:\n"
            "    | ValueError: boom\n"
            "  its last lines on stderr:\n"
            "    | Traceback\n"
            "    |   boom\n"
            "  failed as well: rank 5 (SIGSEGV); rank 7 (exit code 1)\n"
            "  stopped because of that: ranks 0-2 (SIGTERM)\n"
            "  before: round 1.1 ended because node2 was lost\n"
            "  exit code 3\n");
}

TEST(ReportText, SaysOnceWhyNoneCouldBeStarted) {
  JobReport report = Failed(Exit(3, ExitKind::kSpawnFailed, ENOENT));
  report.first->exit.detail = "exec x: No such file or directory; hint";
  for (const uint32_t rank : {0u, 1u, 2u}) {
    report.exits.push_back(Exit(rank, ExitKind::kSpawnFailed, ENOENT, /*stopped=*/true));
    report.exits.back().exit.detail = rank == 2 ? "exec x: busy" : report.first->exit.detail;
  }
  EXPECT_THAT(ReportText(report, "job1"),
              testing::HasSubstr("stopped because of that: ranks 0-1 (not started either); "
                                 "rank 2 (not started: exec x: busy)\n"));
}

TEST(ReportText, SaysBecauseOfWhomOthersFailed) {
  JobReport report = Failed(Exit(3, ExitKind::kExited, 3));
  for (const uint32_t rank : {0u, 1u, 2u, 5u}) {
    report.exits.push_back(Exit(rank, ExitKind::kExited, 1, /*stopped=*/rank == 5));
    report.exits.back().exit.because_of = Rank{rank == 2 ? 0u : 3u};
  }
  report.exits.push_back(Exit(4, ExitKind::kExited, 1));
  report.ended_well = {7, 6};
  EXPECT_EQ(ReportText(report, "job1"),
            "muster: job job1: rank 3 on node1 failed\n"
            "  failed as well: rank 4 (exit code 1); rank 2 (exit code 1, after rank 0); "
            "ranks 0-1 (exit code 1, after rank 3)\n"
            "  failed meanwhile: rank 5 (exit code 1)\n"
            "  ended with exit code 0: ranks 6-7\n"
            "  exit code 3\n");
  const auto json = nlohmann::json::parse(ReportJson(report, "job1"));
  report.cause = CauseKind::kUser;  // a worker that ends on its signal may have any code
  EXPECT_THAT(ReportText(report, "job1"),
              testing::HasSubstr("  stopped because of that: rank 5 (exit code 1)\n"));
  EXPECT_EQ(json["ended_well"], nlohmann::json({7, 6}));
  EXPECT_EQ(json["exits"][3]["because_of"], 0);
  EXPECT_FALSE(json["first"].contains("because_of"));
}

TEST(ReportText, NamesWhoWasLostWithNodesWhileTheOthersWentOn) {
  JobReport report;
  report.ended = true;
  report.exit_code = 1;
  report.cause = CauseKind::kNodeLost;
  report.headline = "node node2 was lost: no beat for 7.0 s";
  report.lost_nodes = {{"node2", report.headline, {4, 5}, {}, {}},
                       {"node1", "node node1 left: asked to", {2}, {}, {}}};
  report.exits = {Exit(0, ExitKind::kExited, 3)};
  EXPECT_EQ(ReportText(report, "job1"),
            "muster: job job1: node node2 was lost: no beat for 7.0 s\n"
            "  lost with node2, node1: ranks 2,4-5\n"
            "  failed as well: rank 0 (exit code 3)\n"
            "  exit code 1\n");
  const auto json = nlohmann::json::parse(ReportJson(report, "job1"));
  EXPECT_EQ(json["lost_nodes"][1],
            (nlohmann::json{
                {"host", "node1"}, {"headline", "node node1 left: asked to"}, {"ranks", {2}}}));
}

TEST(StateText, NamesWhoWasRunningWhenTheTimeWasOver) {
  JobReport report;
  report.cause = CauseKind::kTimeout;
  report.exits = {Exit(2, ExitKind::kSignaled, SIGTERM, true), Exit(0, ExitKind::kExited, 0),
                  Exit(1, ExitKind::kExited, 4, true)};
  EXPECT_EQ(StateText(report),
            "  when the time was over:\n"
            "    rank 1 on node1, pid 4001: running, then exit code 4 after 1.2 s\n"
            "    rank 2 on node1, pid 4002: running, then SIGTERM after 1.2 s\n");
  report.cause = CauseKind::kUser;
  EXPECT_EQ(StateText(report), "");
}

TEST(ReportText, OldRoundsAreCounted) {
  JobReport report;
  report.ended = true;
  report.exit_code = 1;
  report.headline = "rank 3 on node1 failed";
  report.restarts = 20;
  report.requeued = 2;
  report.history = {"round 1.19: x", "round 1.20: y"};
  EXPECT_EQ(ReportText(report, "j"),
            "muster: job j: rank 3 on node1 failed\n"
            "  before: Slurm has restarted this job 2 times\n"
            "  before: 18 rounds that are not shown\n"
            "  before: round 1.19: x\n"
            "  before: round 1.20: y\n"
            "  exit code 1\n");
}

TEST(ReportText, LivesOfTheJobBeforeComeFirst) {
  JobReport report;
  report.ended = true;
  report.exit_code = 1;
  report.headline = "rank 3 on node1 failed";
  report.requeued = 1;
  report.history = {"round 2.1: y"};
  EXPECT_EQ(ReportText(report, "j", {"round 1.1: x"}),
            "muster: job j: rank 3 on node1 failed\n"
            "  before: Slurm has restarted this job 1 time\n"
            "  before: round 1.1: x\n"
            "  before: round 2.1: y\n"
            "  exit code 1\n");
  EXPECT_EQ(nlohmann::json::parse(ReportJson(report, "j", {"round 1.1: x"}))["history"],
            nlohmann::json({"round 1.1: x", "round 2.1: y"}));
}

TEST(ReportText, SaysWhyThereWasNoRestart) {
  JobReport report = Failed(Exit(3, ExitKind::kExited, 3));
  report.restarts = 3;
  report.restarts_used = 2;
  report.restarts_max = 5;
  report.no_restart = "rank 3 has used all its 2 restarts (--restarts-per-rank)";
  EXPECT_THAT(
      ReportText(report, "j"),
      HasSubstr("  not started again: rank 3 has used all its 2 restarts (--restarts-per-rank)\n"));
  const auto json = nlohmann::json::parse(ReportJson(report, "j"));
  EXPECT_EQ(json["no_restart"], report.no_restart);
  EXPECT_EQ(json["restarts"], 3);
  EXPECT_EQ(json["restarts_used"], 2);
  EXPECT_EQ(json["restarts_max"], 5);
}

TEST(ReportText, OutOfMemorySaysWhatToDo) {
  ExitRecord first = Exit(3, ExitKind::kSignaled, SIGKILL);
  first.exit.oom_killed = true;
  first.exit.rss_max_bytes = 100u << 20;
  EXPECT_THAT(ReportText(Failed(first), "j"), HasSubstr("peak memory 100 MiB"));
  EXPECT_THAT(ReportText(Failed(first), "j"), HasSubstr("  exit code 137\n"));
}

TEST(ReportText, LastWordsAreOnlyThoseOfTheCause) {
  ExitRecord first = Exit(3, ExitKind::kExited, 3);
  first.exit.stderr_tail = "misleading\n";
  JobReport report = Failed(first);
  report.cause = CauseKind::kNodeLost;
  EXPECT_THAT(ReportText(report, "j"), Not(HasSubstr("misleading")));
}

TEST(ReportJson, HoldsTheSameFactsWithStableNames) {
  ExitRecord first = Exit(3, ExitKind::kSignaled, SIGSEGV);
  first.exit.stderr_tail = "not UTF-8: \xff\n";
  first.exit.core_dumped = true;
  JobReport report = Failed(first);
  report.restarts = 2;
  report.requeued = 1;
  report.exits.push_back(Exit(4, ExitKind::kSpawnFailed, 2));
  report.exits.back().exit.detail = "exec x: No such file or directory";
  const std::string text = ReportJson(report, "job 1");
  EXPECT_EQ(text.back(), '\n');
  const nlohmann::json json = nlohmann::json::parse(text);
  EXPECT_EQ(json["format"], "muster-report-1");
  EXPECT_EQ(json["job_id"], "job 1");
  EXPECT_EQ(json["exit_code"], 139);
  EXPECT_EQ(json["cause"], "worker");
  EXPECT_EQ(json["restarts"], 2);
  EXPECT_EQ(json["requeued"], 1);
  EXPECT_EQ(json["first"]["rank"], 3);
  EXPECT_EQ(json["first"]["host"], "node1");
  EXPECT_EQ(json["first"]["pid"], 4003);
  EXPECT_EQ(json["first"]["signal"], "SIGSEGV");
  EXPECT_EQ(json["first"]["core_dumped"], true);
  EXPECT_EQ(json["first"]["ran_for_s"], 1.25);
  EXPECT_EQ(json["first"]["stderr_tail"], "not UTF-8: \xef\xbf\xbd\n");
  ASSERT_EQ(json["exits"].size(), 2u);
  EXPECT_EQ(json["exits"][1]["exit_code"], 127);
  EXPECT_EQ(json["exits"][1]["how"], "not started: exec x: No such file or directory");
  EXPECT_FALSE(json["exits"][1].contains("signal"));
  EXPECT_EQ(json["exits"][1]["round"], "1.2");
}

TEST(ReportJson, SaysWhatEachNodeHasUsed) {
  JobReport report;
  NodeUse use;
  use.workers = 32;
  use.cpus = 16;
  use.lasted = absl::Seconds(10);
  use.cpu_time = absl::Seconds(100);
  use.ran = absl::Seconds(96);
  use.waited = absl::Seconds(32);
  use.pressed = absl::Seconds(5);
  report.uses = {{"node1", use}};
  const nlohmann::json json = nlohmann::json::parse(ReportJson(report, "j"));
  EXPECT_EQ(json["uses"], nlohmann::json::parse(R"([{"host": "node1", "workers": 32, "cpus": 16,
      "lasted_s": 10.0, "cpu_s": 100.0, "ran_s": 96.0, "waited_s": 32.0, "waited_share": 0.25,
      "pressed_s": 5.0, "steps": 0}])"));
  EXPECT_EQ(json["advice"],
            "32 workers on 16 CPUs waited 25 % of the time for a CPU: try --nproc-per-node 16");
  EXPECT_EQ(AdviceText(report), absl::StrCat("muster: ", json["advice"].get<std::string>(), "\n"));
  report.uses[0].use.steps = 100;
  report.uses[0].use.steps_took = absl::Seconds(8);
  EXPECT_EQ(nlohmann::json::parse(ReportJson(report, "j"))["uses"][0]["steps_per_s"], 12.5);
}

TEST(ReportJson, GoodJobHasNoFirst) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(JobReport(), "j"));
  EXPECT_EQ(json["cause"], "none");
  EXPECT_FALSE(json.contains("first"));
  EXPECT_TRUE(json["exits"].empty());
}

}  // namespace
}  // namespace muster
