#include "proto/wire/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/base/build_info.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/muster.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class BootstrapTest : public testing::Test {
 protected:
  BootstrapTest() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    std::signal(SIGPIPE, SIG_IGN);  // as the agent does
    starter_.Reset(fds[0]);
    agent_.Reset(fds[1]);
  }
  void Send(const std::string& bytes) {
    ASSERT_EQ(send(starter_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  absl::StatusOr<AgentBootstrap> Read(absl::Duration within = absl::Seconds(30)) {
    const absl::Time deadline = BootNow() + within;
    RETURN_IF_ERROR(AnnounceAgent(agent_.get(), deadline));
    return ReadBootstrap(agent_.get(), deadline);
  }
  std::string Said() {
    char bytes[256];
    const ssize_t n = recv(starter_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : "";
  }
  static std::string FrameOf(const std::string& job_id) {
    AgentBootstrap bootstrap;
    bootstrap.job_id = job_id;
    return BootstrapFrame(bootstrap).value();
  }

  UniqueFd starter_;
  UniqueFd agent_;
};

TEST_F(BootstrapTest, TheAgentSpeaksFirstAndReadsNotOneByteMore) {
  Send(FrameOf("j") + "PRI * HTTP/2.0");
  const auto got = Read();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->job_id, "j");
  EXPECT_EQ(Said(), absl::StrCat("\nmuster-agent-ready ", BuildName(), "\n"));
  char rest[64];
  EXPECT_EQ(read(agent_.get(), rest, sizeof(rest)), 14);
}

TEST_F(BootstrapTest, PiecesOfAnySizeMakeAFrame) {
  const std::string frame = FrameOf(std::string(200, 'j'));
  std::thread writer([&] {
    for (const char byte : frame) {
      EXPECT_EQ(send(starter_.get(), &byte, 1, 0), 1);
    }
  });
  const auto got = Read();
  writer.join();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->job_id.size(), 200u);
}

TEST_F(BootstrapTest, AStarterThatGoesAwayOrSaysNothing) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(Read(absl::Milliseconds(1)).status()));
  Send(FrameOf("j").substr(0, 9));
  EXPECT_TRUE(absl::IsDeadlineExceeded(Read(absl::Milliseconds(1)).status()));
  starter_.Reset();
  EXPECT_TRUE(absl::IsUnavailable(Read().status()));
}

TEST_F(BootstrapTest, LengthsOutOfReasonAreRefusedBeforeAnyMemory) {
  Send("\xff\xff\xff\xff");
  EXPECT_TRUE(absl::IsInvalidArgument(Read().status()));
}

TEST_F(BootstrapTest, NoiseIsNoBootstrap) {
  Send(std::string("\0\0\0\4\xff\xff\xff\xff", 8));
  EXPECT_THAT(std::string(Read().status().message()), HasSubstr("no bootstrap"));
}

TEST_F(BootstrapTest, AnotherBuildIsRefusedByNameOfBoth) {
  v1::Bootstrap wire;
  wire.set_protocol(kProtocolVersion);
  wire.set_build("0.0.1-old");
  const std::string bytes = wire.SerializeAsString();
  Send(std::string("\0\0\0", 3) + static_cast<char>(bytes.size()) + bytes);
  EXPECT_THAT(std::string(Read().status().message()),
              testing::AllOf(HasSubstr("0.0.1-old"), HasSubstr(std::string(BuildName()))));
}

TEST_F(BootstrapTest, AnEnvironmentThatDoesNotFitSaysSo) {
  AgentBootstrap bootstrap;
  bootstrap.plan.env_base = {std::string(kMessageBytesMax, 'x')};
  EXPECT_THAT(std::string(BootstrapFrame(bootstrap).status().message()), HasSubstr("-x"));
}

}  // namespace
}  // namespace muster
