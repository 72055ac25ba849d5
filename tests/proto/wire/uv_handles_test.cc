#include "proto/wire/uv_handles.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace muster
