#include "proto/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/log_waiting.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

// stderr is a pipe that nobody reads but Read().
class LogTest : public testing::Test {
 protected:
  LogTest() : before_(dup(STDERR_FILENO)) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader_.Reset(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
  }
  ~LogTest() override {
    SetLogWaits();
    dup2(before_.get(), STDERR_FILENO);
  }
  std::string Read() {
    std::string out;
    char bytes[4096];
    for (ssize_t n = 0; (n = read(reader_.get(), bytes, sizeof(bytes))) > 0;) {
      out.append(bytes, static_cast<size_t>(n));
    }
    return out;
  }
  // The bytes that it took.
  static std::string Fill() {
    const std::string page(4096, 'x');
    std::string out;
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    while (write(STDERR_FILENO, page.data(), page.size()) > 0) {
      out += page;
    }
    fcntl(STDERR_FILENO, F_SETFL, 0);
    return out;
  }

  const UniqueFd before_;
  UniqueFd reader_;
};

TEST_F(LogTest, ALineIsWrittenAtOnce) {
  LogInfo("one");
  EXPECT_EQ(Read(), "muster: one\n");
  SetLogNeverWaits();
  LogInfo("two");
  EXPECT_EQ(Read(), "muster: two\n");
}

TEST_F(LogTest, WhereNobodyReadsLinesWaitAndNobodyElse) {
  const std::string filled = Fill();
  SetLogNeverWaits();
  LogInfo("one");
  LogInfo("two");
  EXPECT_EQ(Read(), filled);
  FlushLog();
  EXPECT_EQ(Read(), "muster: one\nmuster: two\n");
}

TEST_F(LogTest, WhatIsTooMuchIsCounted) {
  Fill();
  SetLogNeverWaits();
  const std::string line(1000, 'l');
  for (int i = 0; i < 100; ++i) {
    LogInfo(line);
  }
  Read();
  std::string rest;
  for (std::string more = "some"; !more.empty();) {
    FlushLog();
    more = Read();
    rest += more;
  }
  EXPECT_THAT(rest, StartsWith(absl::StrCat("muster: ", line, "\n")));
  EXPECT_THAT(rest, EndsWith(" more lines were lost: nobody read stderr\n"));
}

TEST_F(LogTest, WhatWaitsIsWrittenInTheEnd) {
  Fill();
  SetLogNeverWaits();
  LogInfo("one");
  Read();
  SetLogWaits();
  LogInfo("two");
  EXPECT_EQ(Read(), "muster: one\nmuster: two\n");
}

}  // namespace
}  // namespace muster
