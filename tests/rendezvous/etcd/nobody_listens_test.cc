#include "rendezvous/etcd/nobody_listens.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

// A port of 127.0.0.1 that is bound, and refuses until it listens.
class Port {
 public:
  Port() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  void Listen() { EXPECT_EQ(listen(fd_.get(), 1), 0); }
  std::string At(const std::string& host) const { return absl::StrCat(host, ":", port_); }

 private:
  const UniqueFd fd_;
  uint16_t port_ = 0;
};

bool Nobody(const std::vector<std::string>& places) {
  return NobodyListens(places, BootNow() + absl::Seconds(10));
}

TEST(NobodyListens, WhereEveryAddressRefuses) {
  const Port one;
  const Port two;
  EXPECT_TRUE(Nobody({one.At("127.0.0.1"), two.At("127.0.0.1")}));
  EXPECT_TRUE(Nobody({one.At("localhost")}));
  EXPECT_TRUE(Nobody({"[::1]:1"}));
}

TEST(NobodyListens, NotWhereOneDoes) {
  const Port one;
  Port two;
  two.Listen();
  EXPECT_FALSE(Nobody({one.At("127.0.0.1"), two.At("127.0.0.1")}));
  EXPECT_FALSE(Nobody({two.At("localhost")}));  // ::1, of the same name, refuses
}

TEST(NobodyListens, NotWhereOneCannotBeAsked) {
  const Port one;
  EXPECT_FALSE(Nobody({one.At("127.0.0.1"), "no.such.host.invalid:1"}));
  EXPECT_FALSE(NobodyListens({"240.0.0.1:1"}, BootNow()));  // no route, or no answer yet
}

TEST(NoMemberListens, AsksTheNamedAndEachMember) {
  const Port one;
  Port two;
  const std::string named = one.At("127.0.0.1");
  const auto nobody = [&](const std::vector<std::vector<std::string>>& members) {
    return NoMemberListens({named}, members, BootNow() + absl::Seconds(10));
  };
  EXPECT_TRUE(nobody({{named}}));
  EXPECT_FALSE(nobody({}));
  EXPECT_FALSE(nobody({{named}, {}}));
  EXPECT_FALSE(nobody({{named}, {"no.such.host.invalid:1"}}));
  // What another host means by it, a loopback that refuses here does not tell.
  EXPECT_FALSE(nobody({{named}, {two.At("localhost")}}));
  EXPECT_TRUE(nobody({{named, two.At("localhost")}}));
  two.Listen();
  EXPECT_FALSE(
      NoMemberListens({named, two.At("127.0.0.1")}, {{named}}, BootNow() + absl::Seconds(10)));
}

}  // namespace
}  // namespace muster
