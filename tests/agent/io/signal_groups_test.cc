#include "agent/io/signal_groups.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "agent/io/process_tree.h"
#include "tests/agent/io/shepherd_fixture.h"

namespace muster {
namespace {

// Says its name, then each signal that it gets, and stays. In a process of its own, as a shell that
// is waited for by another would take the other's traps.
std::string Hears(const std::string& name) {
  return absl::StrCat("sh -c 'exec 2> /dev/null; for s in USR1 TERM INT; do trap \"echo ", name,
                      " $s\" $s; done; echo ", name, "; while :; do sleep 0.01; done'");
}

class SignalGroupsTest : public ShepherdTest {
 protected:
  // The same of one that no signal of these ends.
  void Run(const std::string& script, int lines) {
    Start(absl::StrCat("trap : USR1 TERM INT; ", script), lines);
  }
  // A worker of this script, that has said so many lines.
  void Start(const std::string& script, int lines) {
    ShepherdTest::Start().SetProgram({"", {"bash", "-c", script}, {kPath}});
    output_ = MakePipe();
    SpawnOn(0, output_);
    output_.writer.Reset();
    Lines(lines);
  }
  std::multiset<std::string> Lines(int count) {
    std::multiset<std::string> out;
    for (int i = 0; i < count; ++i) {
      std::string line;
      for (std::string c; (c = ReadBytes(output_.reader.get(), 1)) != "\n" && !c.empty();) {
        line += c;
      }
      out.insert(line);
    }
    return out;
  }
  // Ends all; what else was said.
  std::string Rest() {
    client_->Clear();
    EXPECT_TRUE(RunUntil([this] { return cleared_ == 1; }));
    return ReadToEnd(output_.reader.get());
  }

  TestPipe output_;
};

constexpr char kWaits[] = "while :; do wait; done";

TEST_F(SignalGroupsTest, EachGroupBelowAWorkerIsToldOnce) {
  Run(absl::StrCat(Hears("own"), " & set -m; ", Hears("job"), " & ", Hears("other"), " & ", kWaits),
      3);
  for (const int signo : {SIGUSR1, SIGTERM, SIGINT}) {
    const std::string name = signo == SIGUSR1 ? "USR1" : signo == SIGTERM ? "TERM" : "INT";
    client_->Signal(signo);
    if (signo == SIGINT) {  // that a shell has its background processes ignore, without set -m
      EXPECT_EQ(Lines(2), (std::multiset<std::string>{"job INT", "other INT"}));
    } else {
      EXPECT_EQ(Lines(3),
                (std::multiset<std::string>{"own " + name, "job " + name, "other " + name}));
    }
  }
  EXPECT_EQ(Rest(), "");
}

TEST_F(SignalGroupsTest, GroupsOfAWorkerThatHasEndedAreTold) {
  Start(absl::StrCat(Hears("own"), " & set -m; ", Hears("job"), " & exec sleep 1000"), 2);
  ASSERT_TRUE(RunUntil([this] { return pids_.size() == 1; }));
  kill(pids_[0], SIGKILL);
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  client_->Signal(SIGTERM);
  EXPECT_EQ(Lines(2), (std::multiset<std::string>{"own TERM", "job TERM"}));
  EXPECT_EQ(Rest(), "");
}

// By default SIGUSR1 would end a daemon.
TEST_F(SignalGroupsTest, ASessionOfItsOwnIsToldToStopOnly) {
  Run(absl::StrCat("setsid ", Hears("daemon"), " & ", Hears("own"), " & ", kWaits), 2);
  client_->Signal(SIGUSR1);
  EXPECT_EQ(Lines(1), (std::multiset<std::string>{"own USR1"}));
  client_->Signal(SIGTERM);
  EXPECT_EQ(Lines(2), (std::multiset<std::string>{"daemon TERM", "own TERM"}));
  EXPECT_EQ(Rest(), "");
}

// Where the user says that it stops the job.
TEST_F(SignalGroupsTest, WhatStopsReachesASessionOfItsOwn) {
  Run(absl::StrCat("setsid ", Hears("daemon"), " & ", Hears("own"), " & ", kWaits), 2);
  client_->Signal(SIGUSR1, /*stops=*/true);
  EXPECT_EQ(Lines(2), (std::multiset<std::string>{"daemon USR1", "own USR1"}));
  EXPECT_EQ(Rest(), "");
}

// It is told itself, and passes on what it likes.
TEST_F(SignalGroupsTest, WhatALaunchBelowHasStartedIsLeftToIt) {
  std::string folder = absl::StrCat(::testing::TempDir(), "/muster-groups-XXXXXX");
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string launch = absl::StrCat(folder, "/launch");
  ASSERT_EQ(symlink("/bin/bash", launch.c_str()), 0);
  Run(absl::StrCat(
          launch, " -c \"exec 2> /dev/null; trap 'echo launch' TERM; set -m; ",
          "sh -c 'trap \\\"echo below\\\" TERM; echo ready; while :; do sleep 0.01; done' & ",
          kWaits, "\" & ", kWaits),
      1);
  client_->Signal(SIGTERM);
  EXPECT_EQ(Lines(1), (std::multiset<std::string>{"launch"}));
  EXPECT_EQ(Rest(), "");
  unlink(launch.c_str());
  rmdir(folder.c_str());
}

TEST_F(SignalGroupsTest, SigstopReachesEveryGroupAndSession) {
  constexpr char kSaysPid[] = "sh -c 'echo $$; exec sleep 1000' & ";
  Run(absl::StrCat("setsid ", kSaysPid, "set -m; ", kSaysPid, "exec sleep 1000"), 0);
  std::set<pid_t> groups;
  for (const std::string& line : Lines(2)) {
    pid_t leader = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line, &leader));
    groups.insert(leader);
  }
  const auto any_runs = [&groups] {
    return std::any_of(groups.begin(), groups.end(),
                       [](pid_t group) { return !StandStill({group}); });
  };
  EXPECT_TRUE(any_runs());
  client_->Signal(SIGSTOP);
  EXPECT_TRUE(RunUntil([&] { return StandStill(groups); }));
  client_->Signal(SIGCONT);
  EXPECT_TRUE(RunUntil(any_runs));
  EXPECT_EQ(Rest(), "");
}

class AwaitedGroupsTest : public SignalGroupsTest {
 protected:
  // The worker dies of the signal; what is below it does not.
  void Stop() {
    client_->Signal(SIGTERM);
    ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
    EXPECT_EQ(WTERMSIG(ends_[0].wait_status), SIGTERM);
    EXPECT_FALSE(ends_[0].alone);
    client_->AwaitGroups();
  }
};

// timeout(1) passes on what its group has got already, perhaps late.
constexpr char kSaves[] =
    "sh -c 'exec 2> /dev/null; trap \"trap \\\"\\\" TERM; read line < $FIFO; echo saved; exit\" "
    "TERM; echo ready; while :; do sleep 0.01; done'";

class Fifo {
 public:
  Fifo() : path_(absl::StrCat(::testing::TempDir(), "/muster-fifo-", getpid())) {
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    end_.Reset(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  }
  ~Fifo() { unlink(path_.c_str()); }
  std::string Set() const { return absl::StrCat("export FIFO=", path_, "; "); }
  void Go() const { EXPECT_EQ(write(end_.get(), "go\n", 3), 3); }

 private:
  const std::string path_;
  UniqueFd end_;
};

TEST_F(AwaitedGroupsTest, EndWithTheLastThatSaves) {
  for (const std::string in : {"", "timeout 1000 ", "set -m; "}) {
    const Fifo fifo;
    ends_.clear();
    pids_.clear();
    groups_ended_ = 0;
    Start(absl::StrCat(fifo.Set(), in, kSaves, " & wait"), 1);
    Stop();
    SpawnOn(1, MakePipe());  // what is said of it would come after
    EXPECT_TRUE(RunUntil([this] { return pids_.size() == 2; }));
    EXPECT_EQ(groups_ended_, 0) << in;
    fifo.Go();
    EXPECT_TRUE(RunUntil([this] { return groups_ended_ == 1; })) << in;
    cleared_ = 0;
    EXPECT_EQ(Rest(), "saved\n") << in;
  }
}

// A daemon that has never reaped a child in the worker's group.
TEST_F(AwaitedGroupsTest, NeitherDaemonsNorTheDeadAreAwaited) {
  Start(
      "perl -MPOSIX -e '$| = 1; fork || exit; POSIX::setsid(); $SIG{TERM} = \"IGNORE\"; "
      "print \"ready\\n\"; sleep 1000' & wait",
      1);
  Stop();
  EXPECT_TRUE(RunUntil([this] { return groups_ended_ == 1; }));
  EXPECT_EQ(Rest(), "");
}

// The worker is setsid(1): what it has started is the user's program, not a daemon.
TEST_F(AwaitedGroupsTest, TheProgramOfASetsidIsAwaited) {
  const Fifo fifo;
  Start(absl::StrCat(fifo.Set(), "exec setsid -w ", kSaves), 1);
  Stop();
  SpawnOn(1, MakePipe());  // what is said of it would come after
  EXPECT_TRUE(RunUntil([this] { return pids_.size() == 2; }));
  EXPECT_EQ(groups_ended_, 0);
  fifo.Go();
  EXPECT_TRUE(RunUntil([this] { return groups_ended_ == 1; }));
  EXPECT_EQ(Rest(), "saved\n");
}

// It does not save because of it. But who saves may ignore all that comes then.
TEST_F(AwaitedGroupsTest, WhoHasIgnoredTheSignalIsNotAwaited) {
  Start("(trap '' TERM; echo ready; while :; do sleep 0.005; done) & wait", 1);
  Stop();
  EXPECT_TRUE(RunUntil([this] { return groups_ended_ == 1; }));
  EXPECT_EQ(Rest(), "");

  const Fifo fifo;
  ends_.clear();
  pids_.clear();
  Start(absl::StrCat(
            fifo.Set(),
            "sh -c 'trap \"trap : INT; trap \\\"\\\" TERM INT; echo saves; read line < $FIFO; "
            "exit\" TERM; echo ready; while :; do read line < $FIFO; done' & wait"),
        1);
  Stop();
  Lines(1);
  client_->Signal(SIGTERM);
  client_->AwaitGroups();
  SpawnOn(1, MakePipe());  // what is said of it would come after
  EXPECT_TRUE(RunUntil([this] { return pids_.size() == 2; }));
  EXPECT_EQ(groups_ended_, 1);
  fifo.Go();
  EXPECT_TRUE(RunUntil([this] { return groups_ended_ == 2; }));
}

TEST_F(AwaitedGroupsTest, AreForgottenWhereAllIsKilled) {
  Start("sh -c 'exec 2> /dev/null; trap : TERM; echo ready; while :; do sleep 1000; done' & wait",
        1);
  Stop();
  EXPECT_EQ(Rest(), "");
  EXPECT_EQ(groups_ended_, 0);
}

}  // namespace
}  // namespace muster
