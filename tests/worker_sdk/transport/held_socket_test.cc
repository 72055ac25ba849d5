#include "worker_sdk/transport/held_socket.h"

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "tests/worker_sdk/ranks.h"
#include "worker_sdk/base/momentary.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(Gate, IsOpenWhereNothingIsHeldUp) {
  Gate gate;
  EXPECT_TRUE(gate.Opens(milliseconds(5), {}));
  EXPECT_TRUE(gate.Opens(milliseconds(5), {milliseconds(5), milliseconds(9)})) << "that is over";
}

TEST(Gate, ACutLastsToItsEnd) {
  Gate gate;
  const LinkHold::Order cut{milliseconds(2000), milliseconds(1000)};
  for (int now = 1000; now < 2000; now += 50) {
    EXPECT_FALSE(gate.Opens(milliseconds(now), cut)) << now;
  }
  EXPECT_TRUE(gate.Opens(milliseconds(2000), cut));
}

TEST(Gate, EachBurstWaitsOnce) {
  Gate gate;
  const LinkHold::Order slow{milliseconds(5000), milliseconds(200)};
  for (const int begin : {1000, 1500}) {
    EXPECT_FALSE(gate.Opens(milliseconds(begin), slow));
    EXPECT_FALSE(gate.Opens(milliseconds(begin + 199), slow));
    auto now = nanoseconds(milliseconds(begin + 200));
    for (int piece = 0; piece < 100; ++piece, now += std::chrono::microseconds(500)) {
      EXPECT_TRUE(gate.Opens(now, slow)) << piece;
    }
    EXPECT_FALSE(gate.Opens(now + Gate::kGap, slow)) << "another one";
    EXPECT_TRUE(gate.Opens(now + Gate::kGap + milliseconds(200), slow));
  }
}

TEST(Gate, AnotherOrderCountsAtOnce) {
  Gate gate;
  const LinkHold::Order slow{milliseconds(5000), milliseconds(2)};
  const LinkHold::Order cut{milliseconds(3000), milliseconds(3000)};
  EXPECT_FALSE(gate.Opens(milliseconds(1000), slow));
  EXPECT_TRUE(gate.Opens(milliseconds(1002), slow));
  EXPECT_FALSE(gate.Opens(milliseconds(1002), cut)) << "in the middle of a burst";
  EXPECT_TRUE(gate.Opens(milliseconds(3000), cut));
}

class HeldSocketTest : public testing::Test {
 protected:
  HeldSocketTest() {
    auto [mine, theirs] = TcpPair();
    held_ = HeldSocket(std::move(mine), LinkHold(&header_));
    other_ = HeldSocket(std::move(theirs));
  }
  void Order(nanoseconds delay, nanoseconds length) {
    const nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
    header_.held_for = static_cast<uint64_t>(delay.count());
    header_.held_until = static_cast<uint64_t>((now + length).count());
  }
  static bool Say(HeldSocket& socket, std::string text) {
    iovec part = {text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t sent = socket.Send(message);
    EXPECT_TRUE(sent == static_cast<ssize_t>(text.size()) || IsMomentary(errno));
    return sent > 0;
  }
  // "": nothing now.
  static std::string Hear(HeldSocket& socket) {
    char text[16];
    const ssize_t got = socket.Receive(text, sizeof(text));
    EXPECT_TRUE(got > 0 || IsMomentary(errno));
    return std::string(text, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }
  // Looks until there is something; how long that took.
  template <typename Look>
  static nanoseconds Await(const Look& look) {
    const auto begin = std::chrono::steady_clock::now();
    while (!look()) {
      std::this_thread::yield();
    }
    return std::chrono::steady_clock::now() - begin;
  }

  ArenaHeader header_{};
  HeldSocket held_;
  HeldSocket other_;
};

TEST_F(HeldSocketTest, NothingIsHeldUpWithoutAnOrder) {
  EXPECT_FALSE(LinkHold(&header_).is_on());
  EXPECT_TRUE(Say(held_, "a"));
  EXPECT_TRUE(Say(other_, "b"));
  std::string heard;
  Await([&] { return !(heard = Hear(other_)).empty(); });
  EXPECT_EQ(heard, "a");
  Await([&] { return !(heard = Hear(held_)).empty(); });
  EXPECT_EQ(heard, "b");
}

TEST_F(HeldSocketTest, NothingIsOnItsWayToOneThatIsGone) {
  const std::string much(1 << 20, 'x');
  iovec part = {const_cast<char*>(much.data()), much.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  while (held_.Send(message) > 0) {  // until the kernel takes no more
  }
  EXPECT_TRUE(IsMomentary(errno));
  EXPECT_GT(held_.unsent(), 0u);
  other_ = HeldSocket();  // it has not read: the kernel resets the connection
  Await([this] { return held_.unsent() == 0; });
}

TEST_F(HeldSocketTest, BothWaysOfACutWaitForItsEnd) {
  Order(milliseconds(300), milliseconds(300));
  EXPECT_TRUE(LinkHold(&header_).is_on());
  EXPECT_TRUE(Say(other_, "b"));
  EXPECT_FALSE(Say(held_, "a"));
  EXPECT_EQ(Hear(held_), "");
  std::string heard;
  EXPECT_GT(Await([&] { return !(heard = Hear(held_)).empty(); }), milliseconds(200));
  EXPECT_EQ(heard, "b");
  EXPECT_TRUE(Say(held_, "a"));
  EXPECT_FALSE(LinkHold(&header_).is_on());
}

TEST_F(HeldSocketTest, TheTimeOfASlowOneCountsFromWhenThereIsSomething) {
  Order(milliseconds(100), std::chrono::hours(1));
  EXPECT_EQ(Hear(held_), "") << "there is nothing yet";
  Await([end = std::chrono::steady_clock::now() + milliseconds(150)] {
    return std::chrono::steady_clock::now() > end;
  });
  EXPECT_TRUE(Say(other_, "b"));
  std::string heard;
  EXPECT_GE(Await([&] { return !(heard = Hear(held_)).empty(); }), milliseconds(100));
  EXPECT_EQ(heard, "b");
  EXPECT_GE(Await([&] { return Say(held_, "a"); }), milliseconds(99));
}

TEST_F(HeldSocketTest, TheEndWaitsAsTheRestDoes) {
  Order(milliseconds(200), milliseconds(200));
  other_ = HeldSocket();
  char byte = 0;
  EXPECT_EQ(held_.Receive(&byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  Await([&] { return held_.Receive(&byte, 1) == 0; });
  EXPECT_FALSE(LinkHold(&header_).is_on());
}

}  // namespace
}  // namespace muster
