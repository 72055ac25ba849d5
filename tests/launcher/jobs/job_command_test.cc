#include "launcher/jobs/job_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "launcher/jobs/keeper_link.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Kind = JobCommand::Kind;

absl::Time Now() {
  return absl::FromCivil(absl::CivilSecond(2026, 11, 22, 14, 53, 34), absl::UTCTimeZone());
}

JobCommand Ok(const std::vector<std::string>& words) {
  const auto out = ParseJobCommand(words, Now(), absl::UTCTimeZone());
  EXPECT_TRUE(out.ok()) << out.status();
  return out.value_or(JobCommand());
}

std::string Error(const std::vector<std::string>& words) {
  const auto out = ParseJobCommand(words, Now(), absl::UTCTimeZone());
  return out.ok() ? "no error" : std::string(out.status().message());
}

TEST(JobCommand, Words) {
  EXPECT_TRUE(IsJobCommand("ps") && IsJobCommand("attach") && IsJobCommand("logs") &&
              IsJobCommand("stop") && IsJobCommand("restart") && IsJobCommand("chaos"));
  EXPECT_FALSE(IsJobCommand("top") || IsJobCommand("") || IsJobCommand("./ps"));
  EXPECT_TRUE(Ok({"ps", "-a", "--json"}).all);
  EXPECT_EQ(Ok({"attach", "-n", "20", "x"}).lines, 20u);
  EXPECT_EQ(Ok({"logs", "x", "--lines=0", "-f"}).lines, 0u);
  EXPECT_EQ(Ok({"logs", "x", "--tail", "5", "--since", "10m"}).lines, 5u);
  EXPECT_EQ(Ok({"attach", "x", "--tail=all"}).lines, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Ok({"attach", "x", "--since=10m"}).since, Now() - absl::Minutes(10));
  EXPECT_EQ(Ok({"logs", "x"}).since, std::nullopt);
  EXPECT_EQ(Ok({"logs", "--", "-x"}).job, "-x");
  const JobCommand stop = Ok({"stop", "--signal", "TERM", "--grace=1m", "night"});
  EXPECT_EQ(stop.kind, Kind::kStop);
  EXPECT_EQ(stop.signal, SIGTERM);
  EXPECT_EQ(stop.grace, absl::Minutes(1));
  EXPECT_EQ(stop.job, "night");
  EXPECT_EQ(Ok({"stop", "x"}).signal, SIGINT);
  EXPECT_TRUE(Ok({"stop", "--help"}).help);
}

TEST(JobCommand, RestartOfTheOnlyJobOrOfOneThatIsNamed) {
  EXPECT_EQ(Ok({"restart"}).kind, Kind::kRestart);
  EXPECT_EQ(Ok({"restart"}).job, "");
  const JobCommand restart = Ok({"restart", "--json", "night"});
  EXPECT_EQ(restart.job, "night");
  EXPECT_TRUE(restart.json);
  EXPECT_THAT(Error({"restart", "a", "b"}), HasSubstr("what is 'b'?"));
  EXPECT_THAT(Error({"restart", "--now", "a"}), HasSubstr("unknown option '--now'"));
  EXPECT_THAT(JobCommandHelp(Kind::kRestart), HasSubstr("--max-restarts"));
}

TEST(JobCommand, WrongWords) {
  EXPECT_EQ(Ok({"ps", "x"}).job, "x");
  EXPECT_THAT(Error({"ps", "x", "y"}), HasSubstr("launch -- ps"));
  EXPECT_THAT(Error({"stop"}), HasSubstr("which job?"));
  EXPECT_THAT(Error({"stop", "a", "b"}), HasSubstr("what is 'b'?"));
  EXPECT_THAT(Error({"logs", "--json", "x"}), HasSubstr("unknown option '--json'"));
  EXPECT_THAT(Error({"logs", "x", "-n"}), HasSubstr("-n: want a value"));
  EXPECT_THAT(Error({"logs", "x", "-n", "-3"}),
              HasSubstr("-n: want a number of lines, or all, got '-3'"));
  EXPECT_THAT(Error({"logs", "x", "--since", "noon"}), HasSubstr("--since: want a time back"));
  EXPECT_THAT(Error({"stop", "x", "--since", "1m"}), HasSubstr("unknown option '--since'"));
  EXPECT_THAT(Error({"stop", "x", "--now=1"}), HasSubstr("--now: takes no value"));
  EXPECT_THAT(Error({"stop", "x", "--signal", "USR1"}), HasSubstr("INT, TERM, HUP or QUIT"));
  EXPECT_THAT(Error({"stop", "x", "--now", "--grace", "3"}), HasSubstr("contradict"));
}

TEST(JobCommand, ChaosSaysWhatToBreak) {
  const JobCommand kill = Ok({"chaos", "kill", "rank", "3"});
  EXPECT_EQ(kill.kind, Kind::kChaos);
  EXPECT_EQ(kill.drill.kind, DrillKind::kKillWorker);
  EXPECT_EQ(kill.drill.target, "3");
  EXPECT_EQ(kill.job, "");
  EXPECT_TRUE(Ok({"chaos", "--job", "night", "kill", "master"}).drill.master);
  EXPECT_EQ(Ok({"chaos", "--job=night", "kill", "master"}).job, "night");
  EXPECT_EQ(Ok({"chaos", "kill", "node1"}).drill.kind, DrillKind::kKillNode);
  const JobCommand freeze = Ok({"chaos", "freeze", "1", "--for", "1m"});
  EXPECT_EQ(freeze.drill.kind, DrillKind::kFreeze);
  EXPECT_EQ(freeze.drill.target, "1");
  EXPECT_EQ(freeze.drill.length, absl::Minutes(1));
  EXPECT_EQ(Ok({"chaos", "cut", "node1"}).drill.length, absl::Seconds(10));
  const JobCommand slow = Ok({"chaos", "slow", "node1", "200ms"});
  EXPECT_EQ(slow.drill.kind, DrillKind::kSlow);
  EXPECT_EQ(slow.drill.delay, absl::Milliseconds(200));
}

TEST(JobCommand, WrongChaos) {
  EXPECT_THAT(Error({"chaos"}), HasSubstr("Want kill rank R, kill NODE"));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"chaos", "kill"},
                                             {"chaos", "break", "node1"},
                                             {"chaos", "freeze", "node1", "node2"},
                                             {"chaos", "slow", "node1"},
                                             {"chaos", "kill", "rank", "3", "4"}}) {
    EXPECT_THAT(Error(words), HasSubstr("Want kill rank R")) << words.back();
  }
  EXPECT_THAT(Error({"chaos", "kill", "rank", "x1"}), HasSubstr("kill rank: want a rank"));
  EXPECT_THAT(Error({"chaos", "slow", "node1", "fast"}), HasSubstr("slow: want"));
  EXPECT_THAT(Error({"chaos", "slow", "node1", "0"}),
              HasSubstr("slow: want more than 0 and at most 1h"));
  EXPECT_THAT(Error({"chaos", "--for", "2h", "cut", "x"}),
              HasSubstr("--for: want more than 0 and at most 1h"));
}

TEST(Drill, OneFormForTheWayToTheLauncherAndBack) {
  const auto drill = ParseDrillText(DrillText({absl::Seconds(10), {"freeze", "node 1"}}));
  ASSERT_TRUE(drill.has_value());
  EXPECT_EQ(drill->length, absl::Seconds(10));
  EXPECT_EQ(drill->words, (std::vector<std::string>{"freeze", "node 1"}));
  const auto answer = ParseAnswer(AnswerText({true, "node1 stands still"}));
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->ok);
  EXPECT_EQ(answer->text, "node1 stands still");
  for (const char* text : {"", "x", "-1\nkill", "0\nkill"}) {
    EXPECT_FALSE(ParseDrillText(text).has_value()) << text;
  }
  for (const char* text : {"", "1", "2 x", "x y"}) {
    EXPECT_FALSE(ParseAnswer(text).has_value()) << text;
  }
}

TEST(StopOrder, OneFormForTheWayToTheLauncher) {
  const auto order = ParseStop(StopText({SIGTERM, true, 500}));
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->signo, SIGTERM);
  EXPECT_TRUE(order->now);
  EXPECT_EQ(order->grace_ms, 500);
  for (const char* text : {"", "2", "2 0", "2 0 -2", "9 0 -1", "0 0 -1", "2 0 -1 7", "x 0 -1"}) {
    EXPECT_FALSE(ParseStop(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace muster
