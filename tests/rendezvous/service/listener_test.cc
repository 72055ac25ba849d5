#include "rendezvous/service/listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "proto/tls/session.h"
#include "tests/proto/base/descriptors.h"
#include "tests/proto/base/loopback.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {
namespace {

class ListenerTest : public testing::Test {
 protected:
  // A connection from this address of loopback, which the listener has taken.
  UniqueFd Taken(const char* address) {
    UniqueFd fd = ConnectFrom(address, port_);
    uv_run(loop_.get(), UV_RUN_NOWAIT);
    return fd;
  }

  TestLoop loop_;
  std::vector<std::string> heard_;  // from where TLS has begun
  Listener listener_{loop_.get(),
                     {[this](UniqueFd, std::string peer) { heard_.push_back(std::move(peer)); },
                      nullptr, nullptr}};
  uint16_t port_ = 0;
};

TEST_F(ListenerTest, OneAddressPushesOutNoneOfAnother) {
  ASSERT_NO_FATAL_FAILURE(RaiseDescriptors(2 * kSilentConnectionsMax + 200));
  const absl::StatusOr<uint16_t> port = listener_.Listen("127.0.0.1:0", PortRange());
  ASSERT_TRUE(port.ok()) << port.status();
  port_ = *port;
  const UniqueFd early = Taken("127.0.0.2");
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < kSilentConnectionsMax; ++i) {
    strangers.push_back(Taken("127.0.0.3"));
  }
  char byte = 0;
  EXPECT_EQ(recv(strangers.front().get(), &byte, 1, 0), 0);  // its oldest
  byte = static_cast<char>(kTlsFirstByte);
  ASSERT_EQ(send(early.get(), &byte, 1, MSG_NOSIGNAL), 1);
  loop_.Until([this] { return !heard_.empty(); }, "the first byte");
  EXPECT_EQ(heard_, std::vector<std::string>{"127.0.0.2"});
  listener_.Close();
}

TEST(PortOwner, IsNamedInFullAlsoBeyondTheKernels15Letters) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  socklen_t size = sizeof(any);
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(listen(socket.get(), 1), 0);
  ASSERT_EQ(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
  EXPECT_EQ(PortOwner(ntohs(any.sin_port)),
            "rendezvous_listener_test (pid " + std::to_string(getpid()) + ")");
}

}  // namespace
}  // namespace muster
