#include "launcher/stdin_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/limits.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

// Puts descriptors in the place of our stdin.
class StdinReaderTest : public LoopTest {
 protected:
  StdinReaderTest() : kept_(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10)) {}
  ~StdinReaderTest() override {
    reader_.reset();
    kept_.valid() ? dup2(kept_.get(), STDIN_FILENO) : close(STDIN_FILENO);
  }
  void Use(int fd) { EXPECT_EQ(dup2(fd, STDIN_FILENO), STDIN_FILENO); }
  void Start() {
    reader_ = std::make_unique<StdinReader>(&loop_, [this](const std::string& bytes, bool eof) {
      EXPECT_EQ(ends_, 0) << "after the end";
      got_ += bytes;
      ends_ += eof ? 1 : 0;
    });
    reader_->Start();
  }

  UniqueFd kept_;
  std::unique_ptr<StdinReader> reader_;
  std::string got_;
  int ends_ = 0;
};

TEST_F(StdinReaderTest, PipeAndSocket) {
  for (const bool socket : {false, true}) {
    got_.clear();
    ends_ = 0;
    TestPipe in = MakePipe();
    if (socket) {
      int fds[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
      in.reader.Reset(fds[0]);
      in.writer.Reset(fds[1]);
    }
    Use(in.reader.get());
    EXPECT_FALSE(StdinReader::NothingThere());
    Start();
    RunReady();
    EXPECT_EQ(got_, "");
    EXPECT_EQ(write(in.writer.get(), "hello", 5), 5);
    ASSERT_TRUE(RunUntil([this] { return got_.size() == 5; }));
    // Others who share the descriptor must not find it changed.
    EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFL) & O_NONBLOCK, 0);
    in.writer.Reset();
    ASSERT_TRUE(RunUntil([this] { return ends_ == 1; }));
    EXPECT_EQ(got_, "hello");
    reader_.reset();
  }
}

TEST_F(StdinReaderTest, ReadsNoMoreThanTheWorkerTakes) {
  std::string path = absl::StrCat(::testing::TempDir(), "/muster-in-XXXXXX");
  const UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
  unlink(path.c_str());
  std::string bytes(3 * kStdinWindow, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 7 / 3);
  }
  ASSERT_EQ(write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  lseek(file.get(), 0, SEEK_SET);
  Use(file.get());
  Start();
  ASSERT_TRUE(RunUntil([this] { return got_.size() >= kStdinWindow; }));
  RunReady();
  EXPECT_LE(got_.size(), kStdinWindow + (64u << 10));
  size_t taken = 0;
  while (ends_ == 0 && taken < bytes.size()) {
    const size_t step = got_.size() - taken;
    ASSERT_GT(step, 0u);
    taken += step;
    reader_->Taken(step);
    ASSERT_TRUE(RunUntil([&] { return got_.size() > taken || ends_ == 1; }));
  }
  ASSERT_TRUE(RunUntil([this] { return ends_ == 1; }));
  EXPECT_TRUE(got_ == bytes);
}

TEST_F(StdinReaderTest, NothingThere) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Use(null.get());
  EXPECT_TRUE(StdinReader::NothingThere());
  Start();
  ASSERT_TRUE(RunUntil([this] { return ends_ == 1; }));
  reader_.reset();
  ends_ = 0;
  close(STDIN_FILENO);
  EXPECT_TRUE(StdinReader::NothingThere());
  Start();
  ASSERT_TRUE(RunUntil([this] { return ends_ == 1; }));
  EXPECT_EQ(got_, "");
}

TEST_F(StdinReaderTest, StopMeansNoMore) {
  TestPipe in = MakePipe();
  Use(in.reader.get());
  Start();
  EXPECT_EQ(write(in.writer.get(), "x", 1), 1);
  reader_->Stop();
  RunReady();
  reader_->Taken(1);
  reader_->Continued();
  RunReady();
  EXPECT_EQ(got_, "");
  EXPECT_EQ(ends_, 0);
}

// In a session of its own with a terminal whose foreground group is another one.
TEST_F(StdinReaderTest, BackgroundDoesNotReadAndTheForegroundDoes) {
  int fds[2] = {-1, -1};
  ASSERT_EQ(openpty(&fds[0], &fds[1], nullptr, nullptr, nullptr), 0);
  UniqueFd master(fds[0]);
  UniqueFd terminal(fds[1]);
  TestPipe result = MakePipe();
  const pid_t shell = fork();
  if (shell == 0) {
    setsid();
    ioctl(terminal.get(), TIOCSCTTY, 0);
    signal(SIGTTOU, SIG_IGN);  // the shell may set the foreground from anywhere
    const pid_t job = fork();
    if (job == 0) {
      setpgid(0, 0);
      result.reader.Reset();
      uv_loop_t loop;
      uv_loop_init(&loop);
      dup2(terminal.get(), STDIN_FILENO);
      std::string got;
      StdinReader reader(&loop, [&got](const std::string& bytes, bool) { got += bytes; });
      reader.Start();
      (void)!write(result.writer.get(), "started\n", 8);
      uv_idle_t spin;
      uv_idle_init(&loop, &spin);
      uv_idle_start(&spin, [](uv_idle_t*) {});
      for (int turns = 0; got.empty(); ++turns) {
        uv_run(&loop, UV_RUN_NOWAIT);
        if (turns == 2000) {  // still here: reading would have stopped us (SIGTTIN)
          (void)!write(result.writer.get(), "waits\n", 6);
        }
      }
      (void)!write(result.writer.get(), got.data(), got.size());
      _exit(0);
    }
    setpgid(job, job);
    result.writer.Reset();
    std::string said = ReadBytes(result.reader.get(), 14);  // started, waits
    tcsetpgrp(terminal.get(), job);                         // as `fg` of a running job: no SIGCONT
    int status = 0;
    waitpid(job, &status, WUNTRACED);
    _exit(said == "started\nwaits\n" && WIFEXITED(status) ? 0 : 1);
  }
  EXPECT_EQ(write(master.get(), "typed\n", 6), 6);
  // Whatever the shell leaves unread in the pipe is the job's last word.
  int status = -1;
  EXPECT_EQ(waitpid(shell, &status, 0), shell);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  result.writer.Reset();
  EXPECT_EQ(ReadToEnd(result.reader.get()), "typed\n");
}

// The terminal is gone (a closed window, under nohup): the end, not a busy loop.
TEST_F(StdinReaderTest, TerminalThatWentAwayIsTheEnd) {
  int fds[2] = {-1, -1};
  ASSERT_EQ(openpty(&fds[0], &fds[1], nullptr, nullptr, nullptr), 0);
  UniqueFd master(fds[0]);
  const UniqueFd terminal(fds[1]);
  Use(terminal.get());
  Start();
  RunReady();
  EXPECT_EQ(ends_, 0);
  master.Reset();
  ASSERT_TRUE(RunUntil([this] { return ends_ == 1; }));
}

}  // namespace
}  // namespace muster
