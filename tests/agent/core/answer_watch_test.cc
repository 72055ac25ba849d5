// S1 to S3 of answer_watch.h.
#include "agent/core/answer_watch.h"

#include <gtest/gtest.h>

#include "proto/base/limits.h"

namespace muster {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

class AnswerWatchTest : public testing::Test {
 protected:
  AnswerWatch watch_{absl::Seconds(2), absl::Seconds(10)};
};

TEST(LeaseSeen, IsMissedBeforeOthersTakeTheRanks) {
  EXPECT_LT(kLeaseSeenWithin + AnswerWatch::kOnceMore, kLeaseSlack);
}

TEST_F(AnswerWatchTest, WhoIsNotAskedIsNotSilent) {
  EXPECT_FALSE(watch_.awaited());
  EXPECT_EQ(watch_.next(), absl::InfiniteFuture());
  EXPECT_FALSE(watch_.IsSilent(At(1000)));
}

TEST_F(AnswerWatchTest, WhoDoesNotAnswerIsSilentAndOnce) {
  watch_.Ask(At(1));
  EXPECT_TRUE(watch_.awaited());
  EXPECT_EQ(watch_.next(), At(3));
  EXPECT_FALSE(watch_.IsSilent(At(2.9)));
  EXPECT_FALSE(watch_.IsSilent(At(3)));
  EXPECT_EQ(watch_.next(), At(3.4));
  EXPECT_TRUE(watch_.IsSilent(At(3.4)));
  EXPECT_FALSE(watch_.awaited());
  EXPECT_FALSE(watch_.IsSilent(At(4)));
}

TEST_F(AnswerWatchTest, WhoAnswersIsNot) {
  watch_.Ask(At(1));
  watch_.Answered();
  EXPECT_FALSE(watch_.awaited());
  EXPECT_FALSE(watch_.IsSilent(At(100)));
}

TEST_F(AnswerWatchTest, WhoIsAskedAgainHasTheTimeFromThen) {
  watch_.Ask(At(1));
  watch_.Ask(At(2));
  EXPECT_FALSE(watch_.IsSilent(At(3.5)));
  EXPECT_FALSE(watch_.IsSilent(At(4.1)));
  EXPECT_TRUE(watch_.IsSilent(At(4.6)));
}

// The pause of the whole job ended as the answer was due.
TEST_F(AnswerWatchTest, WhoAnswersAfterTheFirstLookIsNotSilent) {
  watch_.Ask(At(1));
  EXPECT_FALSE(watch_.IsSilent(At(3.2)));
  watch_.Answered();
  EXPECT_FALSE(watch_.IsSilent(At(3.7)));
  watch_.Ask(At(5));
  EXPECT_FALSE(watch_.IsSilent(At(7))) << "it has both looks again";
}

// The whole job was suspended: who is asked is perhaps woken later.
TEST_F(AnswerWatchTest, WhoLooksLateHasStoodStillItself) {
  watch_.Ask(At(1));
  EXPECT_FALSE(watch_.IsSilent(At(60)));
  EXPECT_EQ(watch_.next(), At(70));
  EXPECT_FALSE(watch_.IsSilent(At(69)));
  EXPECT_FALSE(watch_.IsSilent(At(70.4)));
  EXPECT_TRUE(watch_.IsSilent(At(70.8)));
}

}  // namespace
}  // namespace muster
