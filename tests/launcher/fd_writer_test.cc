#include "launcher/fd_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

std::string Numbers(size_t bytes) {
  std::string out;
  for (uint64_t i = 0; out.size() < bytes; ++i) {
    absl::StrAppend(&out, i, "\n");
  }
  return out;
}

class FdWriterTest : public LoopTest {
 protected:
  FdWriter& Make(int fd) {
    writer_ = std::make_unique<FdWriter>(&loop_, fd, "stdout");
    writer_->on_writable = [this] {
      EXPECT_FALSE(writing_) << "called back from within Write";
      ++writable_;
    };
    writer_->on_closed = [this](const std::string& why) { closed_.push_back(why); };
    return *writer_;
  }
  void Write(absl::string_view bytes) {
    writing_ = true;
    writer_->Write(bytes);
    writing_ = false;
  }
  ~FdWriterTest() override { writer_.reset(); }

  // What `reader` gets while the loop turns, `bytes` of it.
  std::string Collect(int reader, size_t bytes) {
    fcntl(reader, F_SETFL, fcntl(reader, F_GETFL) | O_NONBLOCK);
    std::string got;
    uv_idle_t idle;  // the reader is not on the loop
    uv_idle_init(&loop_, &idle);
    uv_idle_start(&idle, [](uv_idle_t*) {});
    EXPECT_TRUE(RunUntil([&] {
      char buffer[30000];
      const ssize_t n = read(reader, buffer, sizeof(buffer));
      got.append(buffer, n > 0 ? static_cast<size_t>(n) : 0);
      return got.size() >= bytes;
    }));
    uv_close(reinterpret_cast<uv_handle_t*>(&idle), nullptr);
    RunReady();
    return got;
  }

  std::unique_ptr<FdWriter> writer_;
  bool writing_ = false;
  int writable_ = 0;
  std::vector<std::string> closed_;
};

// What must hold for whatever can be written to.
class FdWriterKindTest : public FdWriterTest, public ::testing::WithParamInterface<const char*> {
 protected:
  FdWriterKindTest() {
    const std::string kind = GetParam();
    int fds[2] = {-1, -1};
    if (kind == "socket") {
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    } else if (kind == "terminal") {
      termios raw{};
      EXPECT_EQ(openpty(&fds[0], &fds[1], nullptr, nullptr, nullptr), 0);
      tcgetattr(fds[1], &raw);
      cfmakeraw(&raw);
      tcsetattr(fds[1], TCSANOW, &raw);
    } else {
      EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    }
    reader_.Reset(fds[0]);
    shared_.Reset(fds[1]);
  }
  bool NonBlocking() const { return (fcntl(shared_.get(), F_GETFL) & O_NONBLOCK) != 0; }

  UniqueFd reader_;
  UniqueFd shared_;
};

TEST_P(FdWriterKindTest, WritesAtOnceWhatFits) {
  Make(shared_.get());
  EXPECT_EQ(writer_->terminal(), std::string(GetParam()) == "terminal");
  Write("hello\n");
  EXPECT_TRUE(writer_->Idle());
  EXPECT_EQ(ReadBytes(reader_.get(), 6), "hello\n");
}

TEST_P(FdWriterKindTest, StoppedReaderBlocksNobodyAndLosesNothing) {
  Make(shared_.get());
  const std::string bytes = Numbers(3u << 20);
  for (size_t at = 0; at < bytes.size(); at += 100000) {
    Write(absl::string_view(bytes).substr(at, 100000));
  }
  EXPECT_TRUE(writer_->Busy());
  EXPECT_FALSE(writer_->Idle());
  RunReady();
  EXPECT_FALSE(NonBlocking());
  EXPECT_EQ(writable_, 0);
  EXPECT_TRUE(Collect(reader_.get(), bytes.size()) == bytes);
  EXPECT_TRUE(writer_->Idle());
  EXPECT_GT(writable_, 0);
  EXPECT_FALSE(NonBlocking());
  EXPECT_TRUE(closed_.empty());
}

TEST_P(FdWriterKindTest, GoneReaderIsToldOnce) {
  Make(shared_.get());
  reader_.Reset();
  Write("a");
  Write("b");
  RunReady();
  ASSERT_EQ(closed_.size(), 1u);
  EXPECT_EQ(closed_[0].substr(0, 8), "stdout: ");
  EXPECT_TRUE(writer_->Idle());
  EXPECT_FALSE(writer_->Busy());
}

TEST_P(FdWriterKindTest, ReaderThatGoesWhileOutputWaits) {
  Make(shared_.get());
  Write(Numbers(3u << 20));
  EXPECT_TRUE(writer_->Busy());
  RunReady();
  reader_.Reset();
  ASSERT_TRUE(RunUntil([this] { return !closed_.empty(); }));
  EXPECT_EQ(closed_.size(), 1u);
  EXPECT_TRUE(writer_->Idle());
  Write("more");
  EXPECT_EQ(closed_.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FdWriterKindTest, ::testing::Values("pipe", "socket", "terminal"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_F(FdWriterTest, APipeThatIsFullIsMadeLargerButNeverSmaller) {
  const TestPipe small = MakePipe();
  const int usual = fcntl(small.writer.get(), F_GETPIPE_SZ);
  Make(small.writer.get());
  Write("a line\n");
  EXPECT_EQ(fcntl(small.writer.get(), F_GETPIPE_SZ), usual);
  Write(Numbers(1u << 20));
  EXPECT_EQ(fcntl(small.writer.get(), F_GETPIPE_SZ), 1 << 20);
  const TestPipe large = MakePipe();
  const int bytes = fcntl(large.writer.get(), F_SETPIPE_SZ, 2 << 20);  // root's alone
  Make(large.writer.get());
  Write(Numbers(3u << 20));
  EXPECT_EQ(fcntl(large.writer.get(), F_GETPIPE_SZ), bytes > 0 ? bytes : 1 << 20);
}

TEST_F(FdWriterTest, File) {
  std::string path = absl::StrCat(::testing::TempDir(), "/muster-out-XXXXXX");
  const UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  ASSERT_EQ(write(fd.get(), "before\n", 7), 7);
  Make(fd.get());
  const std::string bytes = Numbers(3u << 20);
  Write(bytes);
  EXPECT_TRUE(writer_->Busy());
  Write("end\n");
  ASSERT_TRUE(RunUntil([this] { return writer_->Idle(); }));
  EXPECT_GT(writable_, 0);
  std::string got(bytes.size() + 100, '\0');
  got.resize(static_cast<size_t>(pread(fd.get(), got.data(), got.size(), 0)));
  EXPECT_TRUE(got == "before\n" + bytes + "end\n");
  unlink(path.c_str());
}

TEST_F(FdWriterTest, NullDeviceTakesAll) {
  const UniqueFd fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
  Make(fd.get());
  Write(Numbers(3u << 20));
  EXPECT_TRUE(writer_->Idle());
  EXPECT_TRUE(closed_.empty());
}

TEST_F(FdWriterTest, FullDevice) {
  const UniqueFd fd(open("/dev/full", O_WRONLY | O_CLOEXEC));
  Make(fd.get());
  Write("x");
  EXPECT_EQ(writer_->lost(), "stdout: No space left on device");
  EXPECT_TRUE(closed_.empty());
  Write("y");
  EXPECT_TRUE(writer_->Idle());
}

TEST_F(FdWriterTest, WhatGoesToAClosedDescriptorIsLost) {
  int closed = fcntl(0, F_DUPFD_CLOEXEC, 100);
  close(closed);
  const UniqueFd to_read(open("/dev/null", O_RDONLY | O_CLOEXEC));  // as launch opens a closed one
  for (const int fd : {closed, to_read.get()}) {
    Make(fd);
    EXPECT_EQ(writer_->lost(), "");
    Write("x");
    EXPECT_EQ(writer_->lost(), "stdout: closed (> /dev/null is quiet)");
    EXPECT_TRUE(writer_->Idle());
    EXPECT_FALSE(writer_->Busy());
    EXPECT_TRUE(closed_.empty());
  }
}

}  // namespace
}  // namespace muster
