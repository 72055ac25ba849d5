// S4 and S5 of shepherd_watch.h.
#include "agent/core/shepherd_watch.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }
int64_t Lease(int64_t seconds) { return seconds * 1000000000; }

class ShepherdWatchTest : public testing::Test {
 protected:
  // Looks when it wants to, until it is silent; InfiniteFuture: it awaits nothing.
  absl::Time SilentAt() {
    for (absl::Time at = watch_.next(); at != absl::InfiniteFuture(); at = watch_.next()) {
      if (watch_.IsSilent(at)) {
        return at;
      }
    }
    return absl::InfiniteFuture();
  }
  ShepherdWatch watch_;
};

TEST_F(ShepherdWatchTest, OnePingAtATimeAndAtMostOneASecond) {
  EXPECT_TRUE(watch_.Ping(At(1)));
  EXPECT_FALSE(watch_.Ping(At(3)));
  watch_.Alive();
  EXPECT_TRUE(watch_.Ping(At(3)));
  watch_.Alive();
  EXPECT_FALSE(watch_.Ping(At(3.5)));
  EXPECT_EQ(SilentAt(), absl::InfiniteFuture());
}

TEST_F(ShepherdWatchTest, APingThatIsNotAnswered) {
  EXPECT_TRUE(watch_.Ping(At(1)));
  EXPECT_EQ(SilentAt(), At(1) + kShepherdWithin + AnswerWatch::kOnceMore);
}

// Neither ping nor spawn may wait for ever.
TEST_F(ShepherdWatchTest, ASpawnThatIsNeverAnswered) {
  EXPECT_TRUE(watch_.Ping(At(1)));
  watch_.SpawnAsked(At(2));
  EXPECT_FALSE(watch_.Ping(At(10)));
  EXPECT_EQ(SilentAt(), At(2) + kSpawnWithin + AnswerWatch::kOnceMore);
}

TEST_F(ShepherdWatchTest, EachSpawnOfManyHasItsTime) {
  watch_.SpawnAsked(At(0));
  watch_.SpawnAsked(At(0));
  watch_.SpawnAnswered(At(200));
  EXPECT_EQ(watch_.next(), At(200) + kSpawnWithin);
  watch_.SpawnAnswered(At(400));
  EXPECT_EQ(SilentAt(), absl::InfiniteFuture());
  EXPECT_TRUE(watch_.Ping(At(400)));
}

TEST_F(ShepherdWatchTest, ALeaseWhoseEndIsNotSeen) {
  watch_.SetLease(Lease(5), At(0));
  EXPECT_EQ(SilentAt(), At(5) + kLeaseSeenWithin + AnswerWatch::kOnceMore);
}

TEST_F(ShepherdWatchTest, AnEarlierLeaseIsNotTheLast) {
  watch_.SetLease(Lease(5), At(0));
  watch_.SetLease(Lease(6), At(5));
  watch_.LeaseSeen(Lease(5));
  EXPECT_EQ(watch_.next(), At(6) + kLeaseSeenWithin);
  watch_.LeaseSeen(Lease(6));
  EXPECT_EQ(SilentAt(), absl::InfiniteFuture());
}

TEST_F(ShepherdWatchTest, NothingIsAwaitedOfOneThatIsDead) {
  watch_.SpawnAsked(At(0));
  watch_.SetLease(Lease(5), At(0));
  watch_.Forget();
  EXPECT_EQ(watch_.next(), absl::InfiniteFuture());
  EXPECT_TRUE(watch_.Ping(At(1)));
}

}  // namespace
}  // namespace muster
