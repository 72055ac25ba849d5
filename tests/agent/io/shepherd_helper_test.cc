// A process of the agent's beside its workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <string>

#include "proto/base/worker_link.h"
#include "tests/agent/io/shepherd_fixture.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ShepherdHelperTest : public ShepherdTest {
 protected:
  // Our end of its socket.
  UniqueFd StartHelper(const std::string& script) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    client_->StartHelper({"/bin/bash", "-c", script, "helper", std::to_string(kWorkerPmiFd)},
                         {kPath, "NAME=value"}, UniqueFd(ends[1]));
    return UniqueFd(ends[0]);
  }
  static std::string Line(const UniqueFd& socket) {
    std::string line;
    while (!line.ends_with("\n")) {
      const std::string next = ReadBytes(socket.get(), 1);
      if (next.empty()) {
        break;
      }
      line += next;
    }
    return line;
  }
};

TEST_F(ShepherdHelperTest, HasItsSocketItsWordsAndItsEnvironment) {
  Start();
  const UniqueFd socket = StartHelper("echo \"$1 $NAME $(ulimit -Sn)\" >&$1");
  rlimit ours{};
  getrlimit(RLIMIT_NOFILE, &ours);
  EXPECT_EQ(Line(socket), "102 value " + std::to_string(ours.rlim_cur) + "\n");
  EXPECT_EQ(ReadToEnd(socket.get()), "") << "it has ended, and nobody else has its end";
}

TEST_F(ShepherdHelperTest, NoSignalOfTheWorkersReachesItAndItsEndIsNoNews) {
  Start().SetProgram(Shell("exec sleep 1000"));
  const UniqueFd socket = StartHelper("echo up >&$1; read line <&$1; echo $line >&$1");
  EXPECT_EQ(Line(socket), "up\n");
  const TestPipe output = MakePipe();
  SpawnOn(0, output);
  ASSERT_TRUE(RunUntil([this] { return pids_.count(0) == 1; }));
  client_->Signal(SIGTERM);
  ASSERT_TRUE(RunUntil([this] { return ends_.count(0) == 1; }));
  EXPECT_FALSE(ends_.at(0).alone) << "the helper is still there";
  ASSERT_EQ(send(socket.get(), "still here\n", 11, 0), 11);
  EXPECT_EQ(Line(socket), "still here\n");
  EXPECT_EQ(ReadToEnd(socket.get()), "");
  EXPECT_EQ(ends_.size(), 1u);
}

TEST_F(ShepherdHelperTest, ClearEndsIt) {
  Start();
  const UniqueFd socket = StartHelper("trap '' TERM; echo up >&$1; while :; do sleep 1; done");
  EXPECT_EQ(Line(socket), "up\n");
  client_->Clear();
  ASSERT_TRUE(RunUntil([this] { return cleared_ == 1; }));
  EXPECT_EQ(ReadToEnd(socket.get()), "");
}

TEST_F(ShepherdHelperTest, DiesWithTheShepherd) {
  Start();
  const UniqueFd socket = StartHelper("echo up >&$1; while :; do sleep 1; done");
  EXPECT_EQ(Line(socket), "up\n");
  kill(client_->pid(), SIGKILL);
  ASSERT_TRUE(RunUntil([this] { return dead_ == 1; }));
  EXPECT_EQ(ReadToEnd(socket.get()), "");
}

TEST_F(ShepherdHelperTest, OneThatIsNotThere) {
  Start();
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const UniqueFd ours(ends[0]);
  client_->StartHelper({"/not/there"}, {}, UniqueFd(ends[1]));
  ASSERT_TRUE(RunUntil([this] { return !helper_failures_.empty(); }));
  EXPECT_THAT(helper_failures_,
              ElementsAre(HasSubstr("exec /not/there: No such file or directory")));
}

TEST_F(ShepherdHelperTest, TooManyVariables) {
  Start();
  client_->StartHelper({"/bin/true"}, {std::string(100000, 'x')}, UniqueFd());
  EXPECT_THAT(helper_failures_, ElementsAre(HasSubstr("the limit is 65536")));
}

}  // namespace
}  // namespace muster
