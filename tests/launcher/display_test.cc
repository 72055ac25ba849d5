#include "launcher/display.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

OutputChunk Chunk(uint32_t rank, uint8_t stream, const std::string& bytes, bool split = false) {
  OutputChunk out;
  out.rank = rank;
  out.node_rank = rank / 2;
  out.stream = stream;
  out.bytes = bytes;
  out.ends_line = bytes.back() == '\n';
  out.split = split;
  return out;
}

// Puts descriptors in the place of our stdout and stderr while a Display lives.
class DisplayTest : public LoopTest {
 protected:
  DisplayTest() {
    std::fflush(stdout);
    kept_out_.Reset(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10));
    kept_err_.Reset(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10));
  }
  ~DisplayTest() override { Restore(); }
  void Restore() {
    display_.reset();
    dup2(kept_out_.get(), STDOUT_FILENO);
    dup2(kept_err_.get(), STDERR_FILENO);
  }
  void Make(int out, int err, bool prefix = true, bool many = true) {
    OutputOptions options;
    options.prefix = prefix;
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    display_ = std::make_unique<Display>(&loop_, options, "r", many);
    display_->on_closed = [this](const std::string& why) { closed_ += why + "|"; };
    display_->on_writable = [this] { ++writable_; };
  }
  // Shows all chunks, turning the loop while it is busy.
  void ShowAll(const std::vector<OutputChunk>& chunks) {
    for (const OutputChunk& chunk : chunks) {
      ASSERT_TRUE(
          RunUntil([&] { return display_->Show(chunk, absl::StrCat("n", chunk.node_rank)); }));
    }
  }

  UniqueFd kept_out_;
  UniqueFd kept_err_;
  std::unique_ptr<Display> display_;
  std::string closed_;
  int writable_ = 0;
};

TEST_F(DisplayTest, StdoutAndStderrStayApart) {
  TestPipe out = MakePipe();
  TestPipe err = MakePipe();
  Make(out.writer.get(), err.writer.get());
  ShowAll({Chunk(0, 1, "a\n"), Chunk(3, 2, "b\n"), Chunk(3, 1, "c")});
  Restore();
  out.writer.Reset();
  err.writer.Reset();
  EXPECT_EQ(ReadToEnd(out.reader.get()), "[0@n0] a\n[3@n1] c\n");
  EXPECT_EQ(ReadToEnd(err.reader.get()), "[3@n1] b\n");
}

TEST_F(DisplayTest, WhatTheRankWithTheTerminalWritesStaysAsItIs) {
  TestPipe out = MakePipe();
  TestPipe err = MakePipe();
  Make(out.writer.get(), err.writer.get());
  display_->SetRaw(1);
  ShowAll({Chunk(1, 1, "\x1b[1mkey? "), Chunk(0, 1, "b\n"), Chunk(1, 1, "x\r\n")});
  Restore();
  out.writer.Reset();
  EXPECT_EQ(ReadToEnd(out.reader.get()), "\x1b[1mkey? [0@n0] b\nx\r\n");
}

TEST_F(DisplayTest, PlainBytesOfOneWorkerPass) {
  TestPipe out = MakePipe();
  TestPipe err = MakePipe();
  Make(out.writer.get(), err.writer.get(), /*prefix=*/false, /*many=*/false);
  const std::string bytes("\0\xff\r\nx", 5);
  ShowAll({Chunk(0, 1, bytes), Chunk(0, 1, "y\n"), Chunk(0, 1, "end")});
  Restore();
  out.writer.Reset();
  EXPECT_EQ(ReadToEnd(out.reader.get()), bytes + "y\nend");
}

TEST_F(DisplayTest, SplitLineOfAPlainWorkerIsNotTorn) {
  TestPipe out = MakePipe();
  TestPipe err = MakePipe();
  Make(out.writer.get(), err.writer.get(), /*prefix=*/false, /*many=*/true);
  ShowAll({Chunk(0, 1, "long", true), Chunk(1, 1, "x\n"), Chunk(0, 1, "er\n"), Chunk(0, 1, "e")});
  Restore();
  out.writer.Reset();
  EXPECT_EQ(ReadToEnd(out.reader.get()), "long\nx\ner\ne");
}

// Not to what the same rank writes in a later round, either. The very last one stays as it is.
TEST_F(DisplayTest, NothingIsGluedToALastLineWithoutNewline) {
  TestPipe out = MakePipe();
  TestPipe err = MakePipe();
  Make(out.writer.get(), err.writer.get(), /*prefix=*/false, /*many=*/true);
  ShowAll({Chunk(0, 1, "a"), Chunk(1, 1, "b"), Chunk(1, 1, "c\n"), Chunk(0, 1, "d")});
  Restore();
  out.writer.Reset();
  EXPECT_EQ(ReadToEnd(out.reader.get()), "a\nb\nc\nd");
}

// 2>&1: whatever part of a line the pipe took, the other stream does not come in between.
TEST_F(DisplayTest, OnePipeForBothHasNoTornLine) {
  TestPipe both = MakePipe();
  fcntl(both.writer.get(), F_SETPIPE_SZ, 4096);
  Make(both.writer.get(), both.writer.get());
  std::vector<std::string> wanted;
  size_t bytes = 0;
  for (uint32_t i = 0; i < 300; ++i) {
    const uint32_t rank = i % 4;
    const std::string line(1 + i * 131 % 3000, static_cast<char>('a' + rank));
    ASSERT_TRUE(display_->Show(Chunk(rank, static_cast<uint8_t>(1 + i % 2), line + "\n"),
                               absl::StrCat("n", rank / 2)));
    wanted.push_back(absl::StrCat("[", rank, "@n", rank / 2, "] ", line));
    bytes += wanted.back().size() + 1;
  }
  fcntl(both.reader.get(), F_SETFL, O_NONBLOCK);
  std::string got;
  uv_idle_t idle;
  uv_idle_init(&loop_, &idle);
  uv_idle_start(&idle, [](uv_idle_t*) {});
  EXPECT_TRUE(RunUntil([&] {
    char buffer[1000];
    const ssize_t n = read(both.reader.get(), buffer, sizeof(buffer));
    got.append(buffer, n > 0 ? static_cast<size_t>(n) : 0);
    return got.size() >= bytes;
  }));
  uv_close(reinterpret_cast<uv_handle_t*>(&idle), nullptr);
  RunReady();
  Restore();
  std::vector<std::string> lines = absl::StrSplit(got, '\n', absl::SkipEmpty());
  EXPECT_TRUE(lines == wanted);
}

// A progress bar on stderr and a line on stdout, both on the terminal.
TEST_F(DisplayTest, OneTerminalForBothGivesEachItsLine) {
  int fds[2] = {-1, -1};
  ASSERT_EQ(openpty(&fds[0], &fds[1], nullptr, nullptr, nullptr), 0);
  const UniqueFd master(fds[0]);
  const UniqueFd terminal(fds[1]);
  termios raw{};
  tcgetattr(terminal.get(), &raw);
  cfmakeraw(&raw);
  tcsetattr(terminal.get(), TCSANOW, &raw);
  Make(terminal.get(), terminal.get());
  EXPECT_TRUE(display_->out_is_terminal());
  EXPECT_TRUE(display_->err_is_terminal());
  ShowAll({Chunk(0, 2, "50%"), Chunk(1, 1, "line\n"), Chunk(0, 2, "60%"), Chunk(0, 2, "\n")});
  Restore();
  const std::string wanted = "[0@n0] 50%\n[1@n0] line\n[0@n0] 60%\n";
  EXPECT_EQ(ReadBytes(master.get(), wanted.size()), wanted);
}

TEST_F(DisplayTest, BusyStreamRefusesAndTellsWhenItTakesAgain) {
  TestPipe out = MakePipe();
  TestPipe err = MakePipe();
  Make(out.writer.get(), err.writer.get());
  const OutputChunk big = Chunk(0, 1, std::string(500000, 'x') + "\n");
  int shown = 0;
  while (display_->Show(big, "n0")) {
    ASSERT_LT(++shown, 20);
  }
  EXPECT_TRUE(display_->Show(Chunk(0, 2, "other\n"), "n0"));  // stderr is not held up by it
  EXPECT_FALSE(display_->Idle());
  const int before = writable_;
  fcntl(out.reader.get(), F_SETFL, O_NONBLOCK);
  std::string got;
  EXPECT_TRUE(RunUntil([&] {
    char buffer[65536];
    const ssize_t n = read(out.reader.get(), buffer, sizeof(buffer));
    got.append(buffer, n > 0 ? static_cast<size_t>(n) : 0);
    return display_->Idle();
  }));
  EXPECT_GT(writable_, before);
  EXPECT_TRUE(display_->Show(big, "n0"));
  Restore();
}

TEST_F(DisplayTest, ClosedStdoutIsTold) {
  TestPipe out = MakePipe();
  TestPipe err = MakePipe();
  Make(out.writer.get(), err.writer.get());
  err.reader.Reset();
  ShowAll({Chunk(0, 2, "nobody\n")});
  EXPECT_EQ(closed_, "");  // only stdout stops the job
  out.reader.Reset();
  ShowAll({Chunk(0, 1, "a\n"), Chunk(0, 1, "b\n")});
  EXPECT_EQ(closed_, "stdout: Broken pipe|");
  EXPECT_TRUE(display_->Idle());
}

}  // namespace
}  // namespace muster
