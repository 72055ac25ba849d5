#include "launcher/schedule/dial_door.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "agent/io/torch_store_port.h"
#include "proto/wire/secret.h"
#include "tests/proto/base/descriptors.h"
#include "tests/proto/base/loopback.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {
namespace {

class DialDoorTest : public testing::Test {
 protected:
  UniqueFd Connect(const char* address) {
    UniqueFd fd = ConnectFrom(address, bound_->port);
    uv_run(loop_.get(), UV_RUN_NOWAIT);
    return fd;
  }
  // What it is greeted with, which it has been.
  static std::string Greeting(const UniqueFd& caller) {
    char bytes[kDialLineBytesMax];
    const ssize_t n = recv(caller.get(), bytes, sizeof(bytes), 0);
    return {bytes, n > 0 ? static_cast<size_t>(n) : 0};
  }
  static bool IsClosed(const UniqueFd& caller) {
    char byte = 0;
    return recv(caller.get(), &byte, 1, 0) == 0;
  }

  TestLoop loop_;
  const DialTicket ticket_{"j1", "", {}};  // --insecure: without TLS
  std::vector<std::string> came_;
  absl::StatusOr<BoundPort> bound_ = BindStorePort("127.0.0.1", 0);
  DialDoor door_{loop_.get(),
                 std::move(bound_->fd),
                 ticket_,
                 {[](const std::string&) { return true; },
                  [this](const std::string& node, UniqueFd) { came_.push_back(node); }}};
};

TEST_F(DialDoorTest, StrangersOfOneAddressPushOutNoNodeOfAnother) {
  ASSERT_NO_FATAL_FAILURE(RaiseDescriptors(2 * kCallersMax + 200));
  door_.Await(1);
  const UniqueFd node = Connect("127.0.0.2");
  std::string greeting = Greeting(node);
  ASSERT_FALSE(greeting.empty());
  greeting.pop_back();
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < kCallersMax; ++i) {
    strangers.push_back(Connect("127.0.0.3"));
  }
  ASSERT_EQ(Greeting(strangers.front()).size(), greeting.size() + 1);
  EXPECT_TRUE(IsClosed(strangers.front()));  // their oldest
  const absl::StatusOr<DialCall> call =
      CallLaunch(ticket_, "node1", std::string(kNonceBytes, 'n'), greeting, "");
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_EQ(send(node.get(), call->line.data(), call->line.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(call->line.size()));
  loop_.Until([this] { return !came_.empty(); }, "the node");
  EXPECT_EQ(came_, std::vector<std::string>{"node1"});
}

TEST_F(DialDoorTest, WhenNobodyIsAwaitedCallersAreDropped) {
  door_.Await(1);
  const UniqueFd caller = Connect("127.0.0.2");
  EXPECT_FALSE(Greeting(caller).empty());
  door_.Await(0);
  EXPECT_TRUE(IsClosed(caller));
}

}  // namespace
}  // namespace muster
