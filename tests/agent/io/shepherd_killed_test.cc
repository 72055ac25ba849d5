// Who is left when the shepherd, the I/O process or the reaper is killed.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <csignal>
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
  // Starts `workers` in the I/O process. `output` is held by it, the shepherd and all below.
  pid_t ForkIo(uint32_t workers, const std::string& script, const TestPipe& output) {
    const pid_t pid = fork();
    if (pid != 0) {
      return pid;
    }
    uv_loop_init(&loop_);
    Start().SetProgram(Shell(script));
    for (uint32_t i = 0; i < workers; ++i) {
      SpawnOn(i, output);
    }
    for (;;) {
      uv_run(&loop_, UV_RUN_ONCE);
    }
  }
};

TEST_F(KilledIoTest, LeavesNothing) {
  uv_loop_close(&loop_);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  TestPipe output = MakePipe();
  const pid_t io = ForkIo(3, kEvasiveScript, output);
  output.writer.Reset();
  EXPECT_EQ(ReadBytes(output.reader.get(), 18).size(), 18u);
  kill(io, SIGKILL);
  EXPECT_EQ(waitpid(io, nullptr, 0), io);
  EXPECT_EQ(ReadToEnd(output.reader.get()), "");  // the shepherd went too
  uv_loop_init(&loop_);
}

TEST_F(KilledIoTest, LeavesNothingAtAnyMoment) {
  uv_loop_close(&loop_);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  for (size_t after = 0; after <= 40; after += 4) {
    TestPipe output = MakePipe();
    const pid_t io =
        ForkIo(40, "echo; setsid sleep 1000 & (setsid sleep 1000 &); exec sleep 1000", output);
    output.writer.Reset();
    EXPECT_EQ(ReadBytes(output.reader.get(), after).size(), after);
    kill(io, SIGKILL);
    EXPECT_EQ(waitpid(io, nullptr, 0), io);
    (void)ReadToEnd(output.reader.get());
  }
  uv_loop_init(&loop_);
}

// The reaper is left.
TEST_F(KilledIoTest, LeavesNothingWithItsShepherdAtAnyMoment) {
  uv_loop_close(&loop_);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  for (size_t after = 4; after <= 40; after += 4) {
    TestPipe output = MakePipe();
    const pid_t io =
        ForkIo(40, "setsid sleep 1000 & (setsid sleep 1000 &); echo; exec sleep 1000", output);
    output.writer.Reset();
    EXPECT_EQ(ReadBytes(output.reader.get(), after).size(), after);
    const std::vector<pid_t> below = ProcessesBelow(io);  // the reaper, the shepherd, its workers
    ASSERT_GE(below.size(), 2u);
    for (const int signo : {SIGSTOP, SIGKILL}) {  // neither acts on the other's end
      EXPECT_EQ(kill(io, signo), 0);
      EXPECT_EQ(kill(below[1], signo), 0);
    }
    EXPECT_EQ(waitpid(io, nullptr, 0), io);
    (void)ReadToEnd(output.reader.get());
  }
  uv_loop_init(&loop_);
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
