#include "agent/io/store_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "agent/io/torch_store_port.h"
#include "tests/agent/io/loopback.h"

namespace muster {
namespace {

using testing::HasSubstr;

constexpr uid_t kUser = 1001;
const std::set<std::string>& Nodes() {
  static const std::set<std::string> nodes = {"10.0.0.1", "fd00::1"};
  return nodes;
}

TEST(StoreRefusal, FromOtherMachinesTheAddressDecides) {  // G1
  for (const char* known : {"10.0.0.1", "fd00::1"}) {
    EXPECT_EQ(StoreRefusal(known, std::nullopt, Nodes(), kUser), "") << known;
  }
  for (const char* strange : {"10.0.0.2", "fd00::2", "", "10.0.0.1 "}) {
    EXPECT_THAT(StoreRefusal(strange, std::nullopt, Nodes(), kUser),
                AllOf(HasSubstr("no node of this job"), HasSubstr("--store-from any")))
        << strange;
  }
}

TEST(StoreRefusal, OnThisMachineTheUserDoes) {  // G2
  for (const char* address : {"10.0.0.1", "10.0.0.2", "127.0.0.1", "::1"}) {
    EXPECT_EQ(StoreRefusal(address, SocketOwner{kUser, true}, Nodes(), kUser), "") << address;
    EXPECT_THAT(StoreRefusal(address, SocketOwner{1002, true}, Nodes(), kUser),
                AllOf(HasSubstr("of uid 1002, the job's is 1001"), HasSubstr("--store-from any")))
        << address;
    EXPECT_THAT(StoreRefusal(address, SocketOwner{0, false}, Nodes(), 0), HasSubstr("was closed"))
        << address << ": the kernel gives what is nobody's any more to root";
  }
}

TEST(StoreRefusal, WhereTheKernelDoesNotTellLoopbackIsLetIn) {
  EXPECT_EQ(StoreRefusal("127.0.0.3", std::nullopt, Nodes(), kUser), "");
  EXPECT_EQ(StoreRefusal("::1", std::nullopt, Nodes(), kUser), "");
}

// A listening socket, and a connection to it.
class StoreGuardTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    absl::StatusOr<BoundPort> bound = BindStorePort("", 0);
    ASSERT_TRUE(bound.ok()) << bound.status();
    listening_ = std::move(bound->fd);
    if (!Connect(GetParam(), bound->port)) {
      ASSERT_TRUE(Connect(AF_INET, bound->port));  // this machine has no IPv6
    }
    while (!accepted_.valid()) {  // the socket does not block; the connection is there already
      accepted_.Reset(accept(listening_.get(), nullptr, nullptr));
    }
  }

  bool Connect(int family, uint16_t port) {
    client_.Reset(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ConnectToLoopback(client_.get(), family, port) == 0;
  }

  UniqueFd listening_;
  UniqueFd client_;
  UniqueFd accepted_;
};

TEST_P(StoreGuardTest, OurOwnAreLetInWhateverTheNodesAre) {
  StoreGuard guard;
  EXPECT_EQ(guard.RefusalOf(accepted_.get()), "");
  guard.Admit({"node0", "10.0.0.1"});
  EXPECT_EQ(guard.RefusalOf(accepted_.get()), "");
}

TEST_P(StoreGuardTest, WhatIsClosedAlreadyIsNobodys) {
  ASSERT_EQ(send(client_.get(), "x", 1, 0), 1);
  client_.Reset();
  StoreGuard guard;
  guard.Admit({"127.0.0.1", "::1"});
  EXPECT_THAT(guard.RefusalOf(accepted_.get()), HasSubstr("was closed"));
}

INSTANTIATE_TEST_SUITE_P(Families, StoreGuardTest, testing::Values(AF_INET, AF_INET6),
                         [](const auto& one) { return one.param == AF_INET ? "v4" : "v6"; });

}  // namespace
}  // namespace muster
