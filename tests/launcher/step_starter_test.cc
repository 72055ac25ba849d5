// Agents that call: shell scripts in srun's and pbsdsh's place (fake_srun, fake_pbsdsh), and an
// agent that calls as the real one does, and then only echoes (fake_agent).
#include "launcher/schedule/step_starter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/io/torch_store_port.h"
#include "launcher/schedule/pbs.h"
#include "launcher/schedule/slurm.h"
#include "launcher/schedule/slurm_stepd.h"
#include "tests/launcher/starter_fixture.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StepStarterTest : public StarterTest {
 protected:
  using Steps = std::vector<std::vector<std::string> >;
  void Srun(absl::Duration answer_timeout = absl::Seconds(50),
            std::function<Steps(const std::vector<std::string>&)> steps = OneStep) {
    StepOptions options;
    options.program = "srun";
    options.steps = std::move(steps);
    options.command = [this](const std::vector<std::string>& hosts) {
      std::vector<std::string> command = {FAKE_SRUN, folder_};
      command.insert(command.end(), hosts.begin(), hosts.end());
      command.insert(command.end(), {"--", FAKE_AGENT, "--dial"});
      return command;
    };
    options.end_of = [](absl::string_view line) {
      StepEnd end = StepdEnd(line);
      return end.how.empty() ? SrunEnd(line) : end;
    };
    options.environment = {absl::StrCat("PATH=", std::getenv("PATH")), "GIVEN=1"};
    options.job_id = "j1";
    options.secret = secret_;
    options.answer_timeout = answer_timeout;
    options.on_unreachable = [this](const std::string& why) { unreachable_.push_back(why); };
    options.listen = Listen;
    Use(MakeStepStarter(loop_.get(), options));
  }
  // Of two hosts more, none of which calls.
  void ExpectAtMostAtOnce() {
    const size_t hosts = kStartsAtOnceMax + 2;
    for (size_t i = 0; i < hosts; ++i) {
      Start(i, absl::StrCat("silent", i));
    }
    Until([this] { return !pids_.empty(); }, "the first ones");
    EXPECT_EQ(pids_.size(), kStartsAtOnceMax);
    Until([&] { return failed_.size() == hosts; }, "the failures of all");
    EXPECT_EQ(pids_.size(), hosts);
  }
  void Pbsdsh(absl::Duration answer_timeout = absl::Seconds(50)) {
    StepOptions options;
    options.program = "pbsdsh";
    const std::string key = "cookie:00";
    options.command_of_one = [this, key](const std::string& host, const DialTicket& ticket) {
      std::vector<std::string> command = {FAKE_PBSDSH, folder_,  host, "--",
                                          FAKE_AGENT,  "--dial", host};
      const std::vector<std::string> words = TicketWords(ticket, key);
      command.insert(command.end(), words.begin(), words.end());
      return command;
    };
    options.end_of = TaskEnd;
    options.agents_outlive = true;
    options.prepare = [this] {
      ++prepared_;
      return prepare_;
    };
    options.on_all_called = [this] { ++all_called_; };
    options.environment = {absl::StrCat("PATH=", std::getenv("PATH")), "PBS_JOBCOOKIE=keks"};
    options.job_id = "j1";
    options.secret = CookieSecret("keks", key);
    options.answer_timeout = answer_timeout;
    options.listen = Listen;
    Use(MakeStepStarter(loop_.get(), options));
  }
  static Steps OneStep(const std::vector<std::string>& hosts) { return {hosts}; }
  static Steps AStepEach(const std::vector<std::string>& hosts) {
    Steps out;
    for (const std::string& host : hosts) {
      out.push_back({host});
    }
    return out;
  }
  static absl::StatusOr<StepDoor> Listen() {
    absl::StatusOr<BoundPort> bound = BindStorePort("127.0.0.1", 0);
    return StepDoor{std::move(bound->fd), {absl::StrCat("127.0.0.1:", bound->port)}};
  }
  std::string secret_ = "geheim";
  std::vector<std::string> unreachable_;
  std::string Text(const char* file) {
    std::ifstream in(absl::StrCat(folder_, "/", file));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int all_called_ = 0;
  int prepared_ = 0;
  absl::Status prepare_;
};

TEST_F(StepStarterTest, OneCommandStartsAllAndEachGetsItsOwnBootstrap) {
  Srun();
  Start(0, "node3");
  Start(1, "node1");
  Start(7, "node2");
  Until([this] { return sockets_.size() == 3; }, "three agents");
  EXPECT_EQ(Line(0), "job j1 secret geheim node 0\n");
  EXPECT_EQ(Line(1), "job j1 secret geheim node 1\n");
  EXPECT_EQ(Line(7), "job j1 secret geheim node 7\n");
  EXPECT_EQ(Text("calls"), " node3 node1 node2\n");
  EXPECT_THAT(Text("environment"), AllOf(HasSubstr("GIVEN=1\n"), Not(HasSubstr("HOME="))));
  EXPECT_EQ(pids_.size(), 3U);
  sockets_.clear();  // the agents end, and so does the command
  Until([this] { return exited_.size() == 3; }, "the command's end");
  EXPECT_EQ(exited_[1], "node1: srun ended with status 0");
  EXPECT_FALSE(killed_.at(1));
  EXPECT_TRUE(failed_.empty());
}

TEST_F(StepStarterTest, NothingWaitsOnAConnectionForAnAck) {
  secret_.clear();  // else the socket is one of this process
  Srun();
  Start(0, "node0");
  Until([this] { return sockets_.contains(0); }, "the agent");
  int on = 0;
  socklen_t size = sizeof(on);
  EXPECT_EQ(getsockopt(sockets_.at(0).get(), IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
  EXPECT_NE(on, 0);
}

TEST_F(StepStarterTest, ACommandThatFailsIsQuotedForEachNode) {
  Srun();
  Start(0, "broken");
  Start(1, "node1");
  Until([this] { return failed_.size() == 2; }, "the failures");
  EXPECT_EQ(failed_[1],
            "node1: srun ended with status 1: srun: error: Unable to create step for job 3: "
            "Invalid node name");
}

TEST_F(StepStarterTest, ANodeThatDoesNotCallIsNamedWithWhatToLookAt) {
  Srun(absl::Milliseconds(1500));
  Start(0, "node0");
  Start(1, "silent");
  Until([this] { return failed_.contains(1); }, "the failure");
  EXPECT_THAT(failed_[1], AllOf(HasSubstr("silent: no call within 1.5s (to 127.0.0.1:"),
                                HasSubstr("--port-range")));
  EXPECT_FALSE(failed_.contains(0));
  EXPECT_EQ(Line(0), "job j1 secret geheim node 0\n");
}

TEST_F(StepStarterTest, WhenNoAgentCanConnectThatIsSaidOnce) {
  Srun();
  Start(0, "cut");
  Until([this] { return !unreachable_.empty(); }, "the word");
  EXPECT_EQ(unreachable_, std::vector<std::string>{"cut: 127.0.0.1:1: Connection refused"});
  EXPECT_TRUE(failed_.empty());  // it goes on trying
}

TEST_F(StepStarterTest, OneAgentThatConnectsIsEnough) {
  Srun();
  Start(0, "cut");
  Start(1, "node1");
  Start(2, "for-node9");  // speaks for a node that is not ours
  Until([this] { return sockets_.contains(1); }, "the agent");
  Until([this] { return absl::StrContains(Text("told"), "cut"); }, "what the other has said");
  Start(3, "node3");
  Until([this] { return sockets_.contains(3); }, "what comes later");
  EXPECT_TRUE(unreachable_.empty());
}

TEST_F(StepStarterTest, TheEndOfOneAgentIsToldWhileOthersGoOn) {
  Srun();
  Start(0, "node0");
  Start(1, "dies");
  Until([this] { return exited_.contains(1); }, "its end");
  EXPECT_EQ(exited_[1], "dies: srun: error: dies,unknown: tasks 0-1: Killed");
  EXPECT_TRUE(killed_.at(1));
  EXPECT_TRUE(sockets_.contains(0));
  EXPECT_FALSE(exited_.contains(0));
}

TEST_F(StepStarterTest, AnAgentThatEndsByItselfHasSaidWhy) {
  Srun();
  Start(0, "refuses");
  Until([this] { return exited_.contains(0); }, "its end");
  EXPECT_EQ(
      exited_[0],
      "refuses: srun: error: refuses: task 0: Exited with exit code 1; an agent said: refuses "
      "has no GPU");
  EXPECT_FALSE(killed_.at(0));
}

// The step goes on for the others; srun's own line comes first.
TEST_F(StepStarterTest, WhyAnAgentCouldNotRunIsPreferredToItsExitCode) {
  Srun();
  Start(0, "node0");
  Start(1, "absent");
  Until([this] { return failed_.contains(1); }, "the failure");
  EXPECT_EQ(failed_[1],
            "absent: Slurm could not run the agent (/x/muster-agent: No such file or directory): "
            "muster-agent must be at this path on every node");
  Start(2, "mute");
  Until([this] { return failed_.contains(2); }, "what is known of another");
  EXPECT_EQ(failed_[2], "mute: srun: error: mute: task 0: Exited with exit code 2");
  EXPECT_FALSE(failed_.contains(0));
}

TEST_F(StepStarterTest, WhoDoesNotKnowTheSecretOrIsNotAwaitedGetsNothing) {
  Srun();
  Start(0, "stranger");
  Start(1, "twice");
  Until([this] { return failed_.contains(0) && sockets_.contains(1); }, "one of each");
  EXPECT_FALSE(sockets_.contains(0));
  EXPECT_THAT(failed_[0], HasSubstr("the master's identity is not that of this job's secret"));
  Until([this] { return absl::StrContains(Text("unasked"), "awaits no agent of 'unasked'"); },
        "the refusal of another");
  EXPECT_EQ(sockets_.size(), 1U);
}

TEST_F(StepStarterTest, ACommandForEachHostHasTheTicketInItsWordsButNotTheSecret) {
  Pbsdsh();
  Start(0, "node3");
  Start(7, "node1");
  Until([this] { return sockets_.size() == 2; }, "two agents");
  const std::string secret = CookieSecret("keks", "cookie:00");
  EXPECT_EQ(Line(0), absl::StrCat("job j1 secret ", secret, " node 0\n"));
  EXPECT_EQ(Line(7), absl::StrCat("job j1 secret ", secret, " node 7\n"));
  EXPECT_THAT(Text("calls"), AllOf(HasSubstr("--dial node3 j1 cookie:00 127.0.0.1:"),
                                   HasSubstr("--dial node1 j1 "), Not(HasSubstr(secret))));
  EXPECT_EQ(all_called_, 1);
  sockets_.erase(0);  // the agent ends, and so does its command, and no other
  Until([this] { return exited_.contains(0); }, "its end");
  EXPECT_EQ(exited_[0], "node3: pbsdsh ended with status 0");
  EXPECT_FALSE(exited_.contains(7));
}

TEST_F(StepStarterTest, WhatAnAgentNeedsIsPreparedForEachStartAlsoForAnother) {
  Pbsdsh();
  Start(0, "node3");
  Until([this] { return sockets_.contains(0); }, "the agent");
  EXPECT_EQ(prepared_, 1);
  EXPECT_EQ(all_called_, 1);
  sockets_.clear();
  Until([this] { return exited_.contains(0); }, "its end");
  Start(0, "node3");
  Until([this] { return sockets_.contains(0); }, "the second agent");
  EXPECT_EQ(prepared_, 2);
  EXPECT_EQ(all_called_, 2);
}

TEST_F(StepStarterTest, WhatCannotBePreparedIsSaid) {
  Pbsdsh();
  prepare_ = absl::ResourceExhaustedError("no space");
  EXPECT_EQ(FailureOf("node1"), "node1: no space");
  EXPECT_TRUE(pids_.empty());
  EXPECT_EQ(all_called_, 1);  // what was prepared by halves may go
}

TEST_F(StepStarterTest, HowAnAgentEndedIsSaidByWhatStartedIt) {
  Pbsdsh();
  EXPECT_THAT(FailureOf("missing"), HasSubstr("missing: PBS could not run the agent"));
  EXPECT_EQ(all_called_, 1);
  Start(1, "killed");
  Until([this] { return sockets_.contains(1); }, "the agent");
  sockets_.clear();
  Until([this] { return exited_.contains(1); }, "its end");
  EXPECT_EQ(exited_[1], "killed: the agent was ended by SIGKILL");
  EXPECT_TRUE(killed_.at(1));
}

TEST_F(StepStarterTest, AnAgentThatOutlivesItsCommandIsNotSaidToHaveEnded) {
  Pbsdsh();
  Start(0, "outlives");
  Until([this] { return sockets_.contains(0); }, "the agent");
  std::ofstream(folder_ + "/go").put('\n');
  Until([this] { return kill(pids_.front(), 0) != 0; }, "the end of the command");
  EXPECT_THAT(Line(0), HasSubstr("node 0"));  // as ever
  EXPECT_TRUE(exited_.empty());
}

TEST_F(StepStarterTest, OnlySoManyCommandsAreAwaitedAtOnce) {
  Pbsdsh(absl::Milliseconds(1500));
  ExpectAtMostAtOnce();
}

// Uneven GPUs: a step a node.
TEST_F(StepStarterTest, OnlySoManyStepsAreAwaitedAtOnce) {
  Srun(absl::Milliseconds(1500), AStepEach);
  ExpectAtMostAtOnce();
}

TEST_F(StepStarterTest, TheNextStepFollowsTheFirstThatHasCalled) {
  Srun(absl::Seconds(50), AStepEach);
  for (size_t i = 0; i < kStartsAtOnceMax - 1; ++i) {
    Start(i, absl::StrCat("silent", i));
  }
  for (size_t i = 0; i < 3; ++i) {
    Start(kStartsAtOnceMax + i, absl::StrCat("node", i));
  }
  Until([this] { return sockets_.size() == 3; }, "those that call");
  EXPECT_EQ(pids_.size(), kStartsAtOnceMax + 2);
}

// However many nodes one step has: all are there by one command.
TEST_F(StepStarterTest, AStepOfManyNodesIsOneOfThem) {
  Srun(absl::Milliseconds(1500));
  for (size_t i = 0; i < kStartsAtOnceMax + 2; ++i) {
    Start(i, absl::StrCat("silent", i));
  }
  Until([this] { return !pids_.empty(); }, "the command");
  EXPECT_EQ(pids_.size(), kStartsAtOnceMax + 2);
}

TEST_F(StepStarterTest, AMissingProgramIsSaid) {
  StepOptions options;
  options.program = "srun";
  options.steps = OneStep;
  options.command = [](const std::vector<std::string>&) {
    return std::vector<std::string>{"/nonexistent/srun"};
  };
  options.job_id = "j1";
  options.end_of = [](absl::string_view) { return StepEnd(); };
  options.listen = Listen;
  Use(MakeStepStarter(loop_.get(), options));
  EXPECT_THAT(FailureOf("node1"), HasSubstr("/nonexistent/srun"));
}

TEST_F(StepStarterTest, NoPortIsSaid) {
  StepOptions options;
  options.program = "srun";
  options.steps = OneStep;
  options.listen = [] { return absl::ResourceExhaustedError("no port of 20000-20001 is free"); };
  Use(MakeStepStarter(loop_.get(), options));
  EXPECT_EQ(FailureOf("node1"), "node1: no port of 20000-20001 is free");
}

TEST_F(StepStarterTest, StopEndsWhatDoesNotEndByItself) {
  Srun();
  Start(0, "silent");
  Until([this] { return !pids_.empty(); }, "the command");
  const int pid = pids_.front();
  Stop();
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(StepStarterTest, StopBeforeAnythingRunsIsAtOnceOver) {
  Srun();
  Start(0, "node0");
  Stop();
  EXPECT_TRUE(pids_.empty());
}

}  // namespace
}  // namespace muster
