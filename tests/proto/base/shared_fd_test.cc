#include "proto/base/shared_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <thread>

#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

constexpr size_t kLong = 1u << 20;  // many times what a pipe takes

class WriteSharedTest : public ::testing::Test {
 protected:
  WriteSharedTest() { signal(SIGPIPE, SIG_IGN); }  // as our programs do

  // Until nothing goes in any more; how much did.
  static size_t FillUp(int fd) {
    const std::string many(kLong, 'f');
    size_t filled = 0;
    for (;;) {
      const std::optional<size_t> taken = TryWriteShared(fd, many);
      EXPECT_TRUE(taken.has_value());
      if (taken.value_or(0) == 0) {
        return filled;
      }
      filled += *taken;
    }
  }
};

TEST_F(WriteSharedTest, AFullOneTakesNothingAndIsNotClosed) {
  const TestPipe pipe = MakePipe(O_CLOEXEC | O_NONBLOCK);
  EXPECT_GT(FillUp(pipe.writer.get()), 0u);
  EXPECT_EQ(TryWriteShared(pipe.writer.get(), "x"), std::optional<size_t>(0));
}

// The reader is slower than the pipe takes: the writer meets a full one, and a part that fits, many
// times.
TEST_F(WriteSharedTest, AllIsWrittenToAFullOneOnceItIsRead) {
  TestPipe pipe = MakePipe(O_CLOEXEC | O_NONBLOCK);
  const size_t filled = FillUp(pipe.writer.get());
  std::string text;
  for (size_t i = 0; text.size() < kLong; ++i) {
    text += std::to_string(i) + "\n";
  }
  std::string got;
  std::thread reader([&got, fd = pipe.reader.get()] {
    for (std::string some = ReadBytes(fd, 1000); !some.empty(); some = ReadBytes(fd, 1000)) {
      got += some;
    }
  });
  EXPECT_TRUE(WriteShared(pipe.writer.get(), text));
  pipe.writer.Reset();
  reader.join();
  EXPECT_EQ(got.size(), filled + text.size());
  EXPECT_TRUE(got.substr(std::min(filled, got.size())) == text);
}

TEST_F(WriteSharedTest, NobodyReads) {
  TestPipe pipe = MakePipe(O_CLOEXEC | O_NONBLOCK);
  FillUp(pipe.writer.get());
  pipe.reader.Reset();
  EXPECT_FALSE(TryWriteShared(pipe.writer.get(), "x").has_value());
  EXPECT_FALSE(WriteShared(pipe.writer.get(), "x"));
  EXPECT_EQ(errno, EPIPE);
}

// It waits for room when the reader goes.
TEST_F(WriteSharedTest, TheLastReaderGoesMeanwhile) {
  TestPipe pipe = MakePipe(O_CLOEXEC | O_NONBLOCK);
  FillUp(pipe.writer.get());
  std::thread reader([&pipe] {
    ReadBytes(pipe.reader.get(), 1000);
    pipe.reader.Reset();
  });
  const std::string text(kLong, 'x');
  EXPECT_FALSE(WriteShared(pipe.writer.get(), text));
  EXPECT_EQ(errno, EPIPE);
  reader.join();
}

}  // namespace
}  // namespace muster
