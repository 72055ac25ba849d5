#include "launcher/meet_at_file.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

RendezvousPoint Point(const char* nonce) {
  RendezvousPoint point;
  point.nonce = nonce;
  return point;
}

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(Suspicion, ARefusalIsAskedAgainBeforeItCounts) {
  Suspicion suspicion;
  EXPECT_FALSE(suspicion.IsDead(Point("a"), Answer::kRefused, At(0)));
  EXPECT_FALSE(suspicion.IsDead(Point("a"), Answer::kStranger, At(1.9)));
  EXPECT_TRUE(suspicion.IsDead(Point("a"), Answer::kRefused, At(2)));
}

TEST(Suspicion, AnotherFileIsAnotherMaster) {
  Suspicion suspicion;
  EXPECT_FALSE(suspicion.IsDead(Point("a"), Answer::kRefused, At(0)));
  EXPECT_FALSE(suspicion.IsDead(Point("b"), Answer::kRefused, At(5)));
  EXPECT_TRUE(suspicion.IsDead(Point("b"), Answer::kRefused, At(7)));
}

TEST(Suspicion, WhoAnsweredOnceStartsAnew) {
  Suspicion suspicion;
  EXPECT_FALSE(suspicion.IsDead(Point("a"), Answer::kRefused, At(0)));
  EXPECT_FALSE(suspicion.IsDead(Point("a"), Answer::kMaster, At(5)));
  EXPECT_FALSE(suspicion.IsDead(Point("a"), Answer::kRefused, At(6)));
}

TEST(Suspicion, SilenceProvesNothing) {
  Suspicion suspicion;
  EXPECT_FALSE(suspicion.IsDead(Point("a"), Answer::kSilence, At(0)));
  EXPECT_FALSE(suspicion.IsDead(Point("a"), Answer::kSilence, At(1000)));
}

}  // namespace
}  // namespace muster
