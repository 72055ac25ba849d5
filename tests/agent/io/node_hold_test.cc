#include "agent/io/node_hold.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr absl::Duration kShort = absl::Milliseconds(20);

std::string OwnName() {
  return absl::StrCat("test-", getpid(), "-",
                      testing::UnitTest::GetInstance()->current_test_info()->name());
}

// A process that holds `name` until it is killed, or until somebody waits for its end.
class Holder {
 public:
  explicit Holder(const std::string& name, bool until_awaited = false) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const absl::StatusOr<NodeHold> hold = TakeNodeHold(name, kLong);
      const char ok = hold.ok() ? 1 : 0;
      (void)!write(ready[1], &ok, 1);
      pollfd caller = {hold.ok() && until_awaited ? hold->socket.get() : -1, POLLIN, 0};
      poll(&caller, 1, -1);
      _exit(0);
    }
    close(ready[1]);
    char ok = 0;
    EXPECT_EQ(read(ready[0], &ok, 1), 1);
    EXPECT_EQ(ok, 1);
    close(ready[0]);
  }
  ~Holder() { Kill(); }
  void Kill() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(std::exchange(pid_, -1), nullptr, 0);
    }
  }

 private:
  pid_t pid_ = -1;
};

TEST(NodeHold, IsHeldByOne) {
  const absl::StatusOr<NodeHold> first = TakeNodeHold(OwnName(), kShort);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::StatusOr<NodeHold> second = TakeNodeHold(OwnName(), kShort);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(absl::StrContains(second.status().message(), absl::StrCat("process ", getpid())))
      << second.status();
  EXPECT_TRUE(TakeNodeHold(OwnName() + "b", kShort).ok());
}

TEST(NodeHold, IsFreeWithItsHolder) {
  { const absl::StatusOr<NodeHold> first = TakeNodeHold(OwnName(), kShort); }
  EXPECT_TRUE(TakeNodeHold(OwnName(), kShort).ok());
  Holder holder(OwnName());
  EXPECT_FALSE(TakeNodeHold(OwnName(), kShort).ok());
  holder.Kill();
  EXPECT_TRUE(TakeNodeHold(OwnName(), kShort).ok());
}

TEST(NodeHold, IsAwaited) {
  Holder holder(OwnName(), true);
  const absl::StatusOr<NodeHold> next = TakeNodeHold(OwnName(), kLong);
  EXPECT_TRUE(next.ok()) << next.status();
}

// The shepherd has it from the agent: the end of one is not the end of the other.
TEST(NodeHold, LastsAsLongAsAnyHolder) {
  absl::StatusOr<NodeHold> hold = TakeNodeHold(OwnName(), kShort);
  ASSERT_TRUE(hold.ok());
  const pid_t shepherd = fork();
  if (shepherd == 0) {
    pause();
    _exit(0);
  }
  hold->socket.Reset();
  EXPECT_FALSE(TakeNodeHold(OwnName(), kShort).ok());
  kill(shepherd, SIGKILL);
  waitpid(shepherd, nullptr, 0);
  EXPECT_TRUE(TakeNodeHold(OwnName(), kShort).ok());
}

TEST(NodeHold, SaysWhichOneItIsAndSinceWhen) {
  const auto held = [](const std::string& name) { return TakeNodeHold(name, kShort)->hold; };
  const Hold first = held(OwnName());
  const Hold second = held(OwnName());
  EXPECT_FALSE(first.id.empty());
  EXPECT_EQ(second.id, first.id);
  EXPECT_GT(second.taken, first.taken);
  EXPECT_NE(held(OwnName() + "b").id, first.id);
}

TEST(NodeHold, WantsAName) {
  EXPECT_EQ(TakeNodeHold("", kShort).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TakeNodeHold(std::string(kHoldNameBytesMax + 1, 'x'), kShort).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster
