#include "agent/core/idle_clock.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

const absl::Time begun = absl::UnixEpoch() + absl::Hours(1);

class IdleClockTest : public testing::Test {
 protected:
  IdleClockTest() { clock_.Begin(begun); }
  // Ten seconds after the look before.
  absl::Duration Look() {
    now_ += absl::Seconds(10);
    return clock_.Look(seen_, now_);
  }

  IdleClock clock_;
  IdleClock::Seen seen_{absl::Seconds(3), 100, 2, 4};
  absl::Time now_ = begun;
};

TEST_F(IdleClockTest, CountsFromTheFirstLookOn) {
  EXPECT_EQ(Look(), absl::ZeroDuration());
  EXPECT_EQ(Look(), absl::Seconds(10));
  EXPECT_EQ(Look(), absl::Seconds(20));
}

TEST_F(IdleClockTest, ThreadsThatWakeUpNowAndThenDoNotCount) {
  Look();
  seen_.ran += absl::Milliseconds(400);  // a hundredth of 4 times 10 s
  EXPECT_EQ(Look(), absl::Seconds(10));
  seen_.ran += absl::Milliseconds(401);
  EXPECT_EQ(Look(), absl::ZeroDuration());
  EXPECT_EQ(Look(), absl::Seconds(10));
}

TEST_F(IdleClockTest, ALineAStepOrAnEndIsWork) {
  Look();
  EXPECT_EQ(Look(), absl::Seconds(10));
  ++seen_.written;
  EXPECT_EQ(Look(), absl::ZeroDuration());
  ++seen_.steps;
  EXPECT_EQ(Look(), absl::ZeroDuration());
  --seen_.living;
  EXPECT_EQ(Look(), absl::ZeroDuration());
  EXPECT_EQ(Look(), absl::Seconds(10));
}

TEST_F(IdleClockTest, NobodyLivesNobodyIsIdle) {
  seen_.living = 0;
  Look();
  EXPECT_EQ(Look(), absl::ZeroDuration());
}

TEST_F(IdleClockTest, AnotherRoundBeginsAnew) {
  Look();
  EXPECT_EQ(Look(), absl::Seconds(10));
  clock_.Begin(now_);
  EXPECT_EQ(Look(), absl::ZeroDuration());
}

}  // namespace
}  // namespace muster
