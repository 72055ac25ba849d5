#include "proto/base/connect_tcp.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

// A socket at a port of 127.0.0.1 that listens, or only keeps others from it.
struct Port {
  explicit Port(bool listens) : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(fd.get(), any, size), 0);
    EXPECT_EQ(listens ? listen(fd.get(), 1) : 0, 0);
    EXPECT_EQ(getsockname(fd.get(), any, &size), 0);
    text = absl::StrCat(ntohs(address.sin_port));
  }
  UniqueFd fd;
  std::string text;
};

absl::Time Soon() { return BootNow() + absl::Seconds(30); }

TEST(ConnectTcp, ToWhoListens) {
  const Port port(true);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const absl::StatusOr<UniqueFd> fd = ConnectTcp(host, port.text, Soon());
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_EQ(send(fd->get(), "x", 1, MSG_NOSIGNAL), 1);
  }
}

TEST(ConnectTcp, ARefusalIsSaid) {
  const Port port(false);
  const absl::Status status = ConnectTcp("127.0.0.1", port.text, Soon()).status();
  EXPECT_EQ(status, absl::UnavailableError("Connection refused"));
}

TEST(ConnectTcp, ANameThatNobodyKnows) {
  EXPECT_TRUE(absl::IsUnavailable(ConnectTcp("no such host", "1", Soon()).status()));
}

TEST(ConnectTcp, AWaitThatIsOver) {
  const Port port(true);  // a queue of two: those behind are not answered
  std::vector<UniqueFd> waiting;
  absl::Status status;
  for (int i = 0; i < 8 && status.ok(); ++i) {
    absl::StatusOr<UniqueFd> fd =
        ConnectTcp("127.0.0.1", port.text, BootNow() + absl::Milliseconds(300));
    status = fd.status();
    if (fd.ok()) {
      waiting.push_back(*std::move(fd));
    }
  }
  EXPECT_EQ(status, absl::DeadlineExceededError("an answer did not come in time"));
}

}  // namespace
}  // namespace muster
