// W1, W2 of lease_watch.h.
#include "agent/core/lease_watch.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using Due = LeaseWatch::Due;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// Looks whenever that is due, up to `end`; when it is killed then.
absl::Time KilledBy(LeaseWatch& watch, absl::Time end) {
  while (watch.next() <= end) {
    const absl::Time now = watch.next();
    if (watch.Look(now) == Due::kKill) {
      return now;
    }
  }
  return absl::InfiniteFuture();
}

TEST(LeaseWatch, KillsAtTheEndAndOnce) {
  LeaseWatch watch;
  EXPECT_EQ(watch.next(), absl::InfiniteFuture());
  watch.Set(At(5), At(0));
  EXPECT_EQ(KilledBy(watch, At(100)), At(5));
  EXPECT_EQ(watch.next(), absl::InfiniteFuture());
  EXPECT_EQ(watch.Look(At(200)), Due::kNothing);
}

TEST(LeaseWatch, IsRenewedAndTakenBack) {
  LeaseWatch watch;
  watch.Set(At(5), At(0));
  watch.Set(At(7), At(2));
  EXPECT_EQ(KilledBy(watch, At(6)), absl::InfiniteFuture());
  watch.Set(absl::InfiniteFuture(), At(6));
  EXPECT_EQ(KilledBy(watch, At(100)), absl::InfiniteFuture());
}

// Whoever finds the end before the half of it has stood still: by how little it is too late does
// not matter.
TEST(LeaseWatch, AStandstillIsNoReasonToKill) {
  for (const double late : {0.0, 0.001, 0.4, 3.0, 1000.0}) {
    LeaseWatch watch;
    watch.Set(At(5), At(0));
    EXPECT_EQ(watch.Look(At(5 + late)), Due::kStandStill) << late;
    EXPECT_TRUE(watch.stands_still());
  }
}

TEST(LeaseWatch, NorIsOneThatBeganAfterTheHalf) {
  LeaseWatch watch;
  watch.Set(At(5), At(0));
  EXPECT_EQ(watch.Look(At(2.5)), Due::kNothing);
  EXPECT_EQ(watch.Look(At(5) + kStandstillSeen + absl::Milliseconds(1)), Due::kStandStill);
}

TEST(LeaseWatch, WhoStandsStillGoesOnWithALaterLeaseOnly) {
  LeaseWatch watch;
  watch.Set(At(5), At(0));
  ASSERT_EQ(watch.Look(At(20)), Due::kStandStill);
  EXPECT_FALSE(watch.Set(At(6), At(20)));  // it was under way
  EXPECT_FALSE(watch.Set(At(20), At(20)));
  EXPECT_TRUE(watch.stands_still());
  EXPECT_TRUE(watch.Set(At(24), At(20)));
  EXPECT_FALSE(watch.stands_still());
  EXPECT_EQ(KilledBy(watch, At(100)), At(24));
}

TEST(LeaseWatch, WhoStandsStillIsKilledALeaseLater) {
  LeaseWatch watch;
  watch.Set(At(5), At(0));
  ASSERT_EQ(watch.Look(At(20)), Due::kStandStill);
  EXPECT_EQ(KilledBy(watch, At(100)), At(25));
  EXPECT_FALSE(watch.stands_still());
}

TEST(LeaseWatch, AnotherStandstillGivesAnotherLease) {
  LeaseWatch watch;
  watch.Set(At(5), At(0));
  ASSERT_EQ(watch.Look(At(20)), Due::kStandStill);
  ASSERT_EQ(watch.Look(At(60)), Due::kStandStill);
  EXPECT_EQ(KilledBy(watch, At(100)), At(65));
}

// Its order was on the way while this process stood still, or not.
TEST(LeaseWatch, ALeaseThatIsOverWhenItIsTold) {
  LeaseWatch watch;
  watch.Set(At(9.9), At(10));
  EXPECT_EQ(watch.Look(At(10)), Due::kKill);
  watch.Set(At(5), At(10));
  EXPECT_EQ(watch.Look(At(10)), Due::kStandStill);
}

}  // namespace
}  // namespace muster
