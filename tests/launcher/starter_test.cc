// Starters against a shell script in ssh's place (fake_ssh) and an agent that only echoes
// (fake_agent).
#include "launcher/schedule/starter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "launcher/schedule/local_starter.h"
#include "launcher/schedule/process_starter.h"
#include "launcher/schedule/ssh_starter.h"
#include "proto/base/build_info.h"
#include "proto/base/log.h"
#include "proto/wire/uv_handles.h"
#include "tests/launcher/starter_fixture.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(StarterTest, AChildGetsItsBootstrapAndTheChannelIsOurs) {
  Use(MakeLocalStarter(loop_.get(), FAKE_AGENT));
  Start(3, "localhost");
  Until([this] { return sockets_.contains(3); }, "the connection");
  EXPECT_EQ(Line(3), "job j1 secret geheim node 3\n");
  ASSERT_EQ(send(sockets_[3].get(), "hello\n", 6, 0), 6);
  EXPECT_EQ(Line(3), "hello\n");
  sockets_.clear();
  Until([this] { return exited_.contains(3); }, "its exit");
  EXPECT_THAT(exited_[3], HasSubstr("ended with status 0"));
  EXPECT_FALSE(killed_.at(3));
  EXPECT_TRUE(failed_.empty());
}

TEST_F(StarterTest, ManyNodesOverSsh) {
  Ssh();
  for (size_t i = 0; i < 40; ++i) {
    Start(i, absl::StrCat("node", i));
  }
  Until([this] { return sockets_.size() == 40; }, "all connections");
  EXPECT_EQ(Line(17), "job j1 secret geheim node 17\n");
}

TEST_F(StarterTest, TheSecretIsOnNoCommandLine) {
  SshOptions options;
  options.agent_path = "/opt/it's here/muster-agent";
  std::string all;
  for (const std::string& word : SshCommand(options, "node1")) {
    all += word + "\n";
  }
  EXPECT_THAT(all, AllOf(HasSubstr("BatchMode=yes"), HasSubstr("ConnectTimeout=15"),
                         HasSubstr(std::string(BuildName())), Not(HasSubstr("geheim"))));
}

TEST(Ssh, ATargetKeepsUserAndPort) {
  HostEntry host;
  host.name = "node1";
  EXPECT_EQ(SshTarget(host), "node1");
  host.user = "eva";
  EXPECT_EQ(SshTarget(host), "eva@node1");
  host.port = 2222;
  EXPECT_EQ(SshTarget(host), "ssh://eva@node1:2222");
  host.name = "fe80::1%eth0";
  EXPECT_EQ(SshTarget(host), "ssh://eva@[fe80::1%eth0]:2222");
}

TEST_F(StarterTest, ItsStepsAreSaidToWhoWantsToKnow) {
  std::vector<std::string> said;
  SetLogSink([&said](LogLevel level, absl::string_view text) {
    EXPECT_EQ(level, LogLevel::kDebug);
    said.emplace_back(text);
  });
  SetLogLevel(LogLevel::kDebug);
  Use(MakeLocalStarter(loop_.get(), FAKE_AGENT));
  Start(0, "node0");
  Until([this] { return sockets_.contains(0); }, "the connection");
  SetLogLevel(LogLevel::kInfo);
  SetLogSink(nullptr);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_THAT(said[0], HasSubstr("node0: muster-agent runs, process "));
  EXPECT_EQ(said[1], "node0: the agent answers");
}

TEST_F(StarterTest, WhatALoginShellPrintsIsSkipped) {
  Ssh();
  Start(0, "banner");
  Until([this] { return sockets_.contains(0); }, "the connection");
  EXPECT_EQ(Line(0), "job j1 secret geheim node 0\n");
}

TEST_F(StarterTest, AProgramThatIsMissingIsPushedAndLeavesNothing) {
  Ssh();
  Start(0, "bare");
  Until([this] { return sockets_.contains(0); }, "the connection");
  EXPECT_EQ(Line(0), "job j1 secret geheim node 0\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/tmp"));
}

TEST_F(StarterTest, ANodeThatAsksAndHasAnAgentIsRefused) {
  Ssh();
  Start(1, "queue");
  Start(2, "queue");
  Start(3, "eager");
  Until([this] { return failed_.contains(3); }, "the failure");
  EXPECT_THAT(failed_[3], HasSubstr("asks for the agent's program, and has it"));
  EXPECT_EQ(failed_.size(), 1u);
}

// BSD's csh has 1,020 characters for a word, and the script stands there twice.
TEST(SshCommand, TheScriptIsAShortWord) {
  const std::string command = SshCommand({.agent_path = "/x"}, "h").back();
  EXPECT_LT(command.size() - command.rfind("exec /bin/sh -c "), 1020u);
  EXPECT_EQ(command.find_first_of("!\n"), std::string::npos);
}

// R1 of copy_routes.h.
TEST_F(StarterTest, TwoAreSentTheProgramAndTheOthersGetItFromThese) {
  Ssh();
  StartBare(7);
  EXPECT_EQ(Given(), 5u);
}

TEST_F(StarterTest, WhereNodesDoNotReachEachOtherAllAreSentTheProgram) {
  std::ofstream(folder_ + "/closed").put('x');
  Ssh();
  StartBare(4);
  EXPECT_EQ(Given(), 0u);
}

TEST_F(StarterTest, AnotherProgramThanOursIsNotRun) {
  std::ofstream(folder_ + "/damaged").put('x');
  Ssh();
  StartBare(4);
  EXPECT_GE(Given(), 2u);
}

TEST_F(StarterTest, AProgramOfAnotherBuildGivesWayToOurs) {
  Ssh();
  Start(0, "other");
  Until([this] { return sockets_.contains(0); }, "the connection");
  EXPECT_EQ(Line(0), "job j1 secret geheim node 0\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/tmp"));
}

TEST_F(StarterTest, AFailureNamesHostReasonTriesAndNextStep) {
  Ssh();
  const std::string reason = FailureOf("refuse");
  EXPECT_THAT(reason, AllOf(HasSubstr("refuse: "), HasSubstr("ended with status 255 (3 tries)"),
                            HasSubstr("Connection refused"), HasSubstr(" refuse true` work?")));
  EXPECT_EQ(Calls(), "refuse refuse refuse ");
}

TEST_F(StarterTest, ARefusedKeyIsNotTriedAgain) {
  Ssh();
  EXPECT_THAT(FailureOf("denied"), HasSubstr("Permission denied"));
  EXPECT_EQ(Calls(), "denied ");
}

TEST_F(StarterTest, ADroppedConnectionIsTriedAgain) {
  Ssh();
  Start(0, "flaky");
  Until([this] { return sockets_.contains(0); }, "the connection");
  EXPECT_EQ(Calls(), "flaky flaky flaky ");
  EXPECT_TRUE(failed_.empty());
}

TEST_F(StarterTest, WhoDropsEveryLoginIsTriedLongerAndTold) {
  std::vector<std::string> said;
  SetLogSink([&said](LogLevel, absl::string_view text) { said.emplace_back(text); });
  const absl::Cleanup sink = [] { SetLogSink(nullptr); };
  Ssh();
  EXPECT_THAT(FailureOf("drops"), AllOf(HasSubstr("(8 tries)"), HasSubstr("MaxStartups")));
  EXPECT_EQ(Calls(), "drops drops drops drops drops drops drops drops ");
  EXPECT_THAT(said, ElementsAre(HasSubstr("drops: dropped 3 times before the login")));
}

TEST_F(StarterTest, ASilentHostIsGivenUp) {
  std::vector<std::string> said;
  SetLogSink([&said](LogLevel, absl::string_view text) { said.emplace_back(text); });
  const absl::Cleanup sink = [] { SetLogSink(nullptr); };
  Ssh(absl::Milliseconds(30));
  EXPECT_THAT(FailureOf("hang"), HasSubstr("no answer within 30ms; a start-up file"));
  EXPECT_THAT(said, ElementsAre(HasSubstr("hang: no answer for 9 ms; a start-up file")));
}

TEST_F(StarterTest, WhoTakesTheProgramSlowlyIsNotSilent) {
  Ssh(absl::Seconds(2));
  EXPECT_THAT(FailureOf("slow"), HasSubstr("No space left on device"));
}

TEST_F(StarterTest, WhoTakesNothingMoreOfTheProgramIsGivenUp) {
  Ssh(absl::Milliseconds(300));
  EXPECT_THAT(FailureOf("stuck"),
              HasSubstr("it has taken nothing more of the agent's program for 300ms; "));
}

TEST_F(StarterTest, WhatAChildLeavesBehindEndsWithIt) {
  Ssh();
  FailureOf("leaves");
  pid_t left = 0;
  std::ifstream(folder_ + "/left") >> left;
  ASSERT_GT(left, 0);
  UvTimer look(loop_.get(), [] {});
  look.StartEvery(absl::Milliseconds(5));
  Until([left] { return kill(left, 0) != 0; }, "the end of what it left");
}

TEST_F(StarterTest, AShellThatOnlySaysSomethingOnStdout) {
  Ssh();
  EXPECT_THAT(FailureOf("nologin"), HasSubstr("This account is currently not available."));
}

TEST_F(StarterTest, AnEndlessBannerIsBounded) {
  Ssh();
  EXPECT_THAT(FailureOf("flood"), HasSubstr("start-up file of the shell"));
}

TEST_F(StarterTest, AnotherBuildIsRefusedByNameOfBoth) {
  Ssh();
  EXPECT_THAT(FailureOf("old"), AllOf(HasSubstr("0.0.1-old"), HasSubstr(std::string(BuildName()))));
}

TEST_F(StarterTest, AnotherMachineGetsNoProgramOfOurs) {
  Ssh();
  EXPECT_THAT(FailureOf("arm"), HasSubstr("the node is aarch64"));
}

TEST_F(StarterTest, APushThatBreaksOffSaysWhy) {
  Ssh();
  EXPECT_THAT(FailureOf("half"), HasSubstr("No space left on device"));
}

TEST_F(StarterTest, ANodeThatAsksTwiceIsRefused) {
  Ssh();
  EXPECT_THAT(FailureOf("loop"), HasSubstr("again"));
}

TEST_F(StarterTest, AProgramThatIsNotThere) {
  Use(MakeLocalStarter(loop_.get(), "/nonexistent/muster-agent"));
  EXPECT_THAT(FailureOf("localhost"), HasSubstr("/nonexistent/muster-agent: No such file"));
}

TEST_F(StarterTest, AnAgentThatIsKilledIsTold) {
  Use(MakeLocalStarter(loop_.get(), FAKE_AGENT));
  Start(0, "localhost");
  Until([this] { return sockets_.contains(0); }, "the connection");
  kill(pids_.at(0), SIGKILL);
  Until([this] { return exited_.contains(0); }, "its exit");
  EXPECT_TRUE(killed_.at(0)) << exited_[0];
}

TEST_F(StarterTest, AnAgentThatDiesIsNewsOnceWithItsLastWords) {
  Ssh();
  Start(0, "node0");
  Until([this] { return sockets_.contains(0); }, "the connection");
  ASSERT_EQ(send(sockets_[0].get(), "quit\n", 5, 0), 5);
  Until([this] { return exited_.contains(0); }, "its exit");
  EXPECT_THAT(exited_[0], AllOf(HasSubstr("ended with status 7"), HasSubstr("last words")));
  EXPECT_FALSE(killed_.at(0));
  EXPECT_THAT(lines_, testing::ElementsAre("last words"));
  // The same node again, as after a lost node.
  sockets_.clear();
  Start(0, "node0");
  Until([this] { return sockets_.contains(0); }, "the second connection");
}

TEST_F(StarterTest, StopEndsEveryChildAndOnlySoManyAreUnderWay) {
  Ssh();
  for (size_t i = 0; i < kStartsAtOnceMax + 10; ++i) {
    Start(i, absl::StrCat("hang", i));
  }
  Until([this] { return pids_.size() >= kStartsAtOnceMax; }, "the children");
  EXPECT_EQ(pids_.size(), kStartsAtOnceMax);
  Stop();
  for (const int pid : pids_) {
    EXPECT_EQ(kill(pid, 0), -1) << pid;
  }
  EXPECT_TRUE(failed_.empty() && exited_.empty());
}

}  // namespace
}  // namespace muster
