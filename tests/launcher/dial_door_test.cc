#include "launcher/schedule/dial_door.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/io/torch_store_port.h"
#include "proto/tls/identity.h"
#include "proto/tls/tls_thread.h"
#include "proto/wire/secret.h"
#include "tests/proto/base/loopback.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {
namespace {

constexpr size_t kNodes = 1;

class DialDoorTest : public testing::Test {
 protected:
  // Without a secret: --insecure, without TLS.
  void Open(const std::string& secret) {
    ticket_.secret = secret;
    absl::StatusOr<BoundPort> bound = BindStorePort("127.0.0.1", 0);
    port_ = bound->port;
    door_ = std::make_unique<DialDoor>(
        loop_.get(), std::move(bound->fd), ticket_, kNodes,
        DialDoor::Callbacks{[](const std::string&) { return true; },
                            [this](const std::string& node, UniqueFd) { came_.push_back(node); }});
    door_->Await(kNodes);
  }
  // Its end for the node, over TLS where there is a secret.
  UniqueFd Call(const char* address) {
    UniqueFd fd = ConnectFrom(address, port_);
    if (ticket_.secret.empty()) {
      return fd;
    }
    EXPECT_EQ(fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
    TlsExpected expected;
    expected.fingerprint = TlsIdentity::OfSecret(ticket_.secret).fingerprint();
    absl::StatusOr<TlsThread::Dialed> dialed =
        client_.Connect(std::move(fd), std::move(expected), absl::Seconds(30));
    EXPECT_TRUE(dialed.ok()) << dialed.status();
    outcome_ = dialed->outcome;
    return std::move(dialed->inner);
  }
  // What it is greeted with, without the newline.
  std::string Greeting(const UniqueFd& caller) {
    std::string line;
    loop_.Until(
        [&] {
          char byte = 0;
          while (recv(caller.get(), &byte, 1, MSG_DONTWAIT) == 1 && byte != '\n') {
            line.push_back(byte);
          }
          return byte == '\n';
        },
        "the greeting");
    return line;
  }
  void UntilClosed(const UniqueFd& caller) {
    loop_.Until(
        [&] {
          char bytes[kDialLineBytesMax];
          const ssize_t n = recv(caller.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
          return n == 0 || (n < 0 && errno == ECONNRESET);
        },
        "the end");
  }
  // A node calls, then as many strangers as fill the door say nothing; it comes in.
  void NodeAmongStrangers() {
    const UniqueFd node = Call("127.0.0.2");
    const std::string greeting = Greeting(node);
    std::vector<UniqueFd> strangers;
    for (size_t i = 0; i < kNodes + kStrangersMax; ++i) {
      strangers.push_back(ConnectFrom("127.0.0.3", port_));
    }
    UntilClosed(strangers.front());  // their oldest
    const std::string channel = outcome_ == nullptr ? "" : outcome_->facts()->channel;
    const absl::StatusOr<DialCall> call =
        CallLaunch(ticket_, "node1", std::string(kNonceBytes, 'n'), greeting, channel);
    ASSERT_TRUE(call.ok()) << call.status();
    ASSERT_EQ(send(node.get(), call->line.data(), call->line.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(call->line.size()));
    loop_.Until([this] { return !came_.empty(); }, "the node");
    EXPECT_EQ(came_, std::vector<std::string>{"node1"});
  }

  TestLoop loop_;
  DialTicket ticket_{"j1", "", {}};
  std::vector<std::string> came_;
  uint16_t port_ = 0;
  std::unique_ptr<DialDoor> door_;
  TlsThread client_;
  std::shared_ptr<const TlsOutcome> outcome_;
};

TEST_F(DialDoorTest, StrangersOfOneAddressPushOutNoNodeOfAnother) {
  Open("");
  NodeAmongStrangers();
}

TEST_F(DialDoorTest, NorDoTheyOverTls) {
  Open("geheim");
  NodeAmongStrangers();
}

TEST_F(DialDoorTest, WhenNobodyIsAwaitedCallersAreDropped) {
  Open("");
  const UniqueFd caller = Call("127.0.0.2");
  EXPECT_FALSE(Greeting(caller).empty());
  door_->Await(0);
  UntilClosed(caller);
}

}  // namespace
}  // namespace muster
