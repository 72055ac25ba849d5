// Who is left when the shepherd, the I/O process or the reaper is killed.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/io/process_tree.h"
#include "agent/io/shepherd_client.h"
#include "tests/agent/io/shepherd_fixture.h"

namespace muster {
namespace {

// A forked process stands for the I/O process; this one, for init, is no sub-reaper here.
class KilledIoTest : public ShepherdTest {
 protected:
  void SetUp() override {
    uv_loop_close(&loop_);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  void TearDown() override { uv_loop_init(&loop_); }

  // Starts `workers` in an I/O process, which is killed by `kill_it` once they have written `bytes`
  // bytes; what the workers and all below them wrote after that, when nobody is left.
  std::string RunUntilKilled(uint32_t workers, const std::string& script, size_t bytes,
                             const std::function<void(pid_t io)>& kill_it) {
    TestPipe output = MakePipe();
    const pid_t io = fork();
    if (io == 0) {
      setpgid(0, 0);
      RunIo(workers, script, output);
    }
    output.writer.Reset();
    EXPECT_EQ(ReadBytes(output.reader.get(), bytes).size(), bytes);
    const std::vector<pid_t> below = ProcessesBelow(io);  // none yet, where nothing was awaited
    reaper_.Reset(below.empty() ? -1 : static_cast<int>(syscall(SYS_pidfd_open, below[0], 0)));
    kill_it(io);
    int status = 0;
    EXPECT_EQ(waitpid(io, &status, 0), io);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    return ReadToEnd(output.reader.get());
  }

  // The last of ours to go.
  bool ReaperEnds() const {
    pollfd end = {reaper_.get(), POLLIN, 0};
    return poll(&end, 1, 10000) == 1;
  }

  std::optional<absl::Duration> lease_;
  std::string run_dir_;

 private:
  [[noreturn]] void RunIo(uint32_t workers, const std::string& script, const TestPipe& output) {
    uv_loop_init(&loop_);
    Start(SilentIo::kIsKilled).SetProgram(Shell(script));
    if (lease_.has_value()) {
      client_->SetLease(absl::ToUnixNanos(BootNow() + *lease_));
    }
    client_->SetRunDir(run_dir_);
    for (uint32_t i = 0; i < workers; ++i) {
      SpawnOn(i, output);
    }
    for (;;) {
      uv_run(&loop_, UV_RUN_ONCE);
    }
  }

  UniqueFd reaper_;
};

void KillIo(pid_t io) { kill(io, SIGKILL); }

// The reaper is left. Neither of the two acts on the other's end.
void KillWithShepherd(pid_t io) {
  const std::vector<pid_t> below = ProcessesBelow(io);  // the reaper, the shepherd, its workers
  ASSERT_GE(below.size(), 2u);
  for (const int signo : {SIGSTOP, SIGKILL}) {
    EXPECT_EQ(kill(io, signo), 0);
    EXPECT_EQ(kill(below[1], signo), 0);
  }
}

// As `timeout -s KILL`, whoever presses a button of a debugger, and some schedulers do.
void KillGroup(pid_t io) { EXPECT_EQ(kill(-io, SIGKILL), 0); }

TEST_F(KilledIoTest, LeavesNothing) {
  EXPECT_EQ(RunUntilKilled(3, kEvasiveScript, 18, KillIo), "");  // the shepherd went too
}

TEST_F(KilledIoTest, LeavesNothingAtAnyMoment) {
  for (size_t after = 0; after <= 40; after += 4) {
    (void)RunUntilKilled(40, "echo; setsid sleep 1000 & (setsid sleep 1000 &); exec sleep 1000",
                         after, KillIo);
  }
}

TEST_F(KilledIoTest, LeavesNothingWithItsShepherdAtAnyMoment) {
  for (size_t after = 4; after <= 40; after += 4) {
    (void)RunUntilKilled(40, "setsid sleep 1000 & (setsid sleep 1000 &); echo; exec sleep 1000",
                         after, KillWithShepherd);
  }
}

TEST_F(KilledIoTest, LeavesNothingWithItsGroupAtAnyMoment) {
  for (size_t after = 4; after <= 40; after += 4) {
    (void)RunUntilKilled(40, "setsid sleep 1000 & (setsid sleep 1000 &); echo; exec sleep 1000",
                         after, KillGroup);
  }
}

// As `kill -9 %1` in a shell.
TEST_F(KilledIoTest, LeavesNoRunFolderWithItsGroup) {
  std::string folder = testing::TempDir() + "/muster-killed-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  run_dir_ = folder;
  EXPECT_EQ(RunUntilKilled(1, "echo; exec sleep 1000", 1, KillGroup), "");
  EXPECT_TRUE(ReaperEnds());
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(KilledIoTest, LeavesNoReaperThatSomebodyHasStopped) {
  for (const auto& kill_it : {KillIo, KillWithShepherd}) {
    (void)RunUntilKilled(1, "echo; exec sleep 1000", 1, [&](pid_t io) {
      EXPECT_EQ(kill(ProcessesBelow(io).at(0), SIGSTOP), 0);
      kill_it(io);
    });
    EXPECT_TRUE(ReaperEnds());
  }
}

// After the lease: a node has use for it no more, but for another agent in its place.
TEST_F(KilledIoTest, OneThatSomebodyHasStoppedIsKilledOnceItHasNoLease) {
  lease_ = absl::Seconds(1);
  EXPECT_EQ(RunUntilKilled(1, "echo; exec sleep 1000", 1,
                           [](pid_t io) { EXPECT_EQ(kill(io, SIGSTOP), 0); }),
            "");
  EXPECT_TRUE(ReaperEnds());
}

TEST_F(ShepherdTest, AReaperThatIsKilledAsItStartsIsSaidToBe) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  absl::StatusOr<ShepherdProcess> process = ForkShepherd({});
  ASSERT_TRUE(process.ok());
  const absl::Status born = process->AwaitShepherd();
  ASSERT_TRUE(born.ok()) << born;
  kill(process->reaper, SIGKILL);
  kill(process->pid, SIGKILL);
  const absl::Status again = process->AwaitShepherd();  // there is nobody who could say more
  EXPECT_TRUE(absl::IsAborted(again)) << again;
  EXPECT_EQ(again.message().find("ulimit"), std::string::npos) << again;
  while (waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST_F(ShepherdTest, OneThatIsNoMoreIsNotKilledAgain) {
  Start();
  const std::vector<pid_t> below = ProcessesBelow(getpid());
  ASSERT_EQ(below.size(), 2u);
  EXPECT_EQ(kill(below[0], SIGKILL), 0);  // the reaper
  EXPECT_TRUE(client_->Kill());
  ASSERT_TRUE(RunUntil([this] { return dead_ == 1; }));
  EXPECT_EQ(client_->pid(), -1);
  EXPECT_FALSE(client_->Kill());
  // What is asked now is answered.
  client_->SetProgram(Shell("exit 3"));
  SpawnOn(7, MakePipe());
  EXPECT_EQ(failures_[7].first, ECHILD);
  client_->Clear();
  EXPECT_EQ(cleared_, 1);
  client_->Signal(SIGTERM);
}

TEST_F(ShepherdTest, AnotherTakesThePlaceOfOneThatWasKilled) {
  Start();
  for (int i = 0; i < 3; ++i) {
    client_->SetProgram(Shell("(setsid sleep 1000 &); echo; exec sleep 1000"));
    TestPipe output = MakePipe();
    SpawnOn(0, output);
    output.writer.Reset();
    ASSERT_TRUE(RunUntil([this] { return pids_.size() == 1; }));
    EXPECT_EQ(ReadBytes(output.reader.get(), 1), "\n");
    const pid_t before = client_->pid();
    EXPECT_TRUE(client_->Kill());
    SpawnOn(1, MakePipe());  // which it does not live to see
    ASSERT_TRUE(RunUntil([&] { return dead_ == i + 1; }));
    EXPECT_EQ(ReadToEnd(output.reader.get()), "");
    EXPECT_TRUE(ProcessesBelow(client_->pid()).empty());
    EXPECT_NE(client_->pid(), before);
    pids_.clear();
  }
  client_->SetProgram(Shell("exit 3"));
  SpawnOn(2, MakePipe());
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  EXPECT_EQ(WEXITSTATUS(ends_[2].wait_status), 3);
  client_->Clear();
  ASSERT_TRUE(RunUntil([this] { return cleared_ == 1; }));
}

TEST_F(ShepherdTest, AReaperThatSomebodyHasStoppedHoldsNothingUp) {
  Start();
  const std::vector<pid_t> below = ProcessesBelow(getpid());
  ASSERT_EQ(below.size(), 2u);
  EXPECT_EQ(kill(below[0], SIGSTOP), 0);
  client_->Close();
  EXPECT_TRUE(Descendants().empty());
}

TEST_F(ShepherdTest, TheNextOneKeepsTheLease) {
  Start().SetLease(absl::ToUnixNanos(BootNow() + absl::Seconds(2)));
  EXPECT_TRUE(client_->Kill());
  ASSERT_TRUE(RunUntil([this] { return dead_ == 1; }));
  EXPECT_EQ(lease_ended_, 0);
  ASSERT_TRUE(RunUntil([this] { return lease_ended_ == 1; }));
}

TEST_F(ShepherdTest, NobodyMissesTheReaper) {
  Start().SetProgram(Shell("setsid sleep 1000 & trap 'exit 7' TERM; echo; sleep 1000 & wait"));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  ASSERT_TRUE(RunUntil([this] { return pids_.size() == 1; }));
  EXPECT_EQ(ReadBytes(output.reader.get(), 1), "\n");
  const std::vector<pid_t> below = ProcessesBelow(getpid());
  ASSERT_GE(below.size(), 2u);
  EXPECT_EQ(below[1], client_->pid());
  kill(below[0], SIGKILL);
  client_->Signal(SIGTERM);
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  EXPECT_EQ(WEXITSTATUS(ends_[0].wait_status), 7);
  client_->Clear();
  ASSERT_TRUE(RunUntil([this] { return cleared_ == 1; }));
  EXPECT_EQ(dead_, 0);
}

}  // namespace
}  // namespace muster
