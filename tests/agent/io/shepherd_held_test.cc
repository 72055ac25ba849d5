// Workers that wait for a debugger.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "agent/core/exec_hint.h"
#include "agent/io/process_tree.h"
#include "agent/io/small_file.h"
#include "tests/agent/io/shepherd_fixture.h"

namespace muster {
namespace {

using ShepherdHeldTest = ShepherdTest;

// As /proc has it: "T (stopped)".
std::string StateOf(pid_t pid) {
  const std::string status = ReadHead(absl::StrCat("/proc/", pid, "/status"), 4096);
  const size_t at = status.find("State:\t");
  return at == std::string::npos ? "gone" : status.substr(at + 7, status.find('\n', at) - at - 7);
}

WorkerProgram Held(const std::string& script) {
  WorkerProgram out = Shell(script);
  out.hold = true;
  return out;
}

TEST_F(ShepherdHeldTest, AHeldWorkerIsItsProgramAndHasNotBegun) {
  Start().SetProgram(Held("echo ran; exit 3"));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  output.writer.Reset();
  ASSERT_TRUE(RunUntil([this] { return pids_.size() == 1; }));
  const pid_t pid = pids_[0];
  EXPECT_EQ(StateOf(pid), "T (stopped)");
  EXPECT_FALSE(IsTraced(pid));
  EXPECT_EQ(ReadHead(absl::StrCat("/proc/", pid, "/comm"), 64), "sh\n");
  client_->Signal(SIGSTOP);  // a pause: it stands still anyway
  client_->Signal(SIGCONT);
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  EXPECT_EQ(WEXITSTATUS(ends_[0].wait_status), 3);
  EXPECT_EQ(ReadToEnd(output.reader.get()), "ran\n");
}

TEST_F(ShepherdHeldTest, AHeldWorkerTakesASignalThatEndsIt) {
  Start().SetProgram(Held("exit 3"));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  ASSERT_TRUE(RunUntil([this] { return pids_.size() == 1; }));
  client_->Signal(SIGTERM);
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  EXPECT_TRUE(WIFSIGNALED(ends_[0].wait_status) && WTERMSIG(ends_[0].wait_status) == SIGTERM);
}

TEST_F(ShepherdHeldTest, AHeldWorkerThatADebuggerHasIsLeftToIt) {
  Start().SetProgram(Held("exit 3"));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  ASSERT_TRUE(RunUntil([this] { return pids_.size() == 1; }));
  const pid_t pid = pids_[0];
  ASSERT_EQ(ptrace(PTRACE_SEIZE, pid, nullptr, nullptr), 0);
  ASSERT_EQ(waitpid(pid, nullptr, __WALL), pid);  // where it stands still
  EXPECT_TRUE(IsTraced(pid));
  client_->Signal(SIGCONT);
  client_->SetProgram(Shell("exit 4"));
  SpawnOn(1, output);
  ASSERT_TRUE(RunUntil([this] { return ends_.count(1) == 1; }));  // both orders were obeyed
  EXPECT_EQ(StateOf(pid), "t (tracing stop)");
  EXPECT_EQ(ptrace(PTRACE_DETACH, pid, nullptr, nullptr), 0);  // which leaves it standing
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 2; }));
  EXPECT_EQ(WEXITSTATUS(ends_[0].wait_status), 3);
}

// Also between its being traced and its exec, where any signal would stop it for good.
TEST_F(ShepherdHeldTest, SignalsThatComeWhileItStartsDoNotHoldTheShepherdUp) {
  WorkerProgram program = Held("exit 3");
  std::string path = "PATH=";
  for (int folder = 0; folder < 10000; ++folder) {
    path += "/none:";  // looking for the program takes a while
  }
  program.environment = {path + "/usr/bin:/bin"};
  Start().SetProgram(program);
  TestPipe output = MakePipe();
  std::atomic<bool> over = false;
  std::thread window_changes([&over] {
    while (!over) {
      for (const pid_t child : Descendants()) {
        kill(child, SIGWINCH);
      }
    }
  });
  constexpr uint32_t kWorkers = 4;
  for (uint32_t i = 0; i < kWorkers; ++i) {
    SpawnOn(i, output);
  }
  const bool all = RunUntil([this] { return pids_.size() == kWorkers; });
  over = true;
  window_changes.join();
  ASSERT_TRUE(all) << pids_.size();
  client_->Signal(SIGCONT);
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == kWorkers; }));
  for (const auto& [local, end] : ends_) {
    EXPECT_EQ(WEXITSTATUS(end.wait_status), 3) << local;
  }
}

TEST_F(ShepherdHeldTest, AProgramThatIsNotThereIsNotHeld) {
  Start().SetProgram({"", {"no-such-program"}, {kPath}, true});
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  ASSERT_TRUE(RunUntil([this] { return failures_.size() == 1; }));
  EXPECT_EQ(failures_[0].second,
            absl::StrCat("exec no-such-program: No such file or directory",
                         ExecHint("no-such-program", ENOENT, FileKind::kNone)));
}

}  // namespace
}  // namespace muster
