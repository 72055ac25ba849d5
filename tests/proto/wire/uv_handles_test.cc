#include "proto/wire/uv_handles.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/unique_fd.h"

namespace muster {
namespace {

TEST(UvRunUntil, DoesNotWaitOnceATimerHasBroughtItAbout) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  bool over = false;
  bool late = false;
  {
    UvTimer other(&loop, [&late] { late = true; });
    other.StartAfter(absl::Seconds(20));
    UvTimer timer(&loop, [&over] { over = true; });
    timer.StartAfter(absl::ZeroDuration());
    EXPECT_TRUE(UvRunUntil(&loop, [&over] { return over; }));
  }
  EXPECT_FALSE(late);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

TEST(UvRunUntil, EndsWhenNothingIsLeftThatCouldBringItAbout) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  int turns = 0;
  {
    UvTimer timer(&loop, [&turns] { ++turns; });
    timer.StartAfter(absl::ZeroDuration());
    EXPECT_FALSE(UvRunUntil(&loop, [] { return false; }));
  }
  EXPECT_EQ(turns, 1);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

// The far end of a Unix socket that closes with bytes unread makes an error of it.
TEST(UvPoll, AnErrorOfTheDescriptorIsAnEnd) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  const UniqueFd here(fds[0]);
  UniqueFd there(fds[1]);
  ASSERT_EQ(write(here.get(), "unread", 6), 6);
  there.Reset();
  int events = 0;
  {
    UvPoll poll(&loop, here.get(), [&events](int got) { events = got; });
    poll.Start(UV_DISCONNECT);
    EXPECT_TRUE(UvRunUntil(&loop, [&events] { return events != 0; }));
  }
  EXPECT_NE(events & UV_DISCONNECT, 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT_EQ(uv_loop_close(&loop), 0);
}

}  // namespace
}  // namespace muster
