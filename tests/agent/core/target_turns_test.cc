#include "agent/core/target_turns.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr absl::Duration kMin = absl::Milliseconds(100);
constexpr absl::Duration kMax = absl::Milliseconds(500);
constexpr double kNoJitter = 0.5;

TargetTurns::Next Fail(TargetTurns& turns, const char* why) {
  return turns.Failed(why, /*believed=*/true, kMin, kMax, kNoJitter);
}

TEST(TargetTurns, OneIsAskedAgainLaterAndLater) {
  TargetTurns turns({"a:1"});
  for (const int ms : {100, 200, 400, 500, 500}) {
    const TargetTurns::Next next = Fail(turns, "refused");
    EXPECT_EQ(next.wait, absl::Milliseconds(ms));
    EXPECT_EQ(next.told, "refused");
    EXPECT_EQ(turns.target(), "a:1");
  }
  turns.Answered();
  EXPECT_EQ(Fail(turns, "it is gone").wait, kMin);
  EXPECT_EQ(turns.Failed("", true, kMin, kMax, 0).wait, kMin);
  EXPECT_EQ(turns.Failed("", true, kMin, kMax, 1).wait, absl::Milliseconds(600));
}

TEST(TargetTurns, OfSeveralEachIsAskedBeforeThePause) {
  TargetTurns turns({"a:1", "b:2", "[::1]:3"});
  for (const int ms : {100, 200}) {
    EXPECT_EQ(turns.target(), "a:1");
    EXPECT_EQ(Fail(turns, "a:1: refused").wait, absl::ZeroDuration());
    EXPECT_EQ(turns.target(), "b:2");
    EXPECT_EQ(Fail(turns, "h2 does not lead").told, "");
    const TargetTurns::Next next = Fail(turns, "no answer");
    EXPECT_EQ(next.wait, absl::Milliseconds(ms));
    EXPECT_EQ(next.told, "a:1: refused; b:2: h2 does not lead; [::1]:3: no answer");
  }
}

TEST(TargetTurns, TheOneThatWasTheMasterIsAskedLast) {
  TargetTurns turns({"a:1", "b:2"});
  Fail(turns, "refused");
  turns.Answered();
  EXPECT_EQ(turns.target(), "b:2");
  EXPECT_EQ(Fail(turns, "it is gone").wait, absl::ZeroDuration());
  EXPECT_EQ(turns.target(), "a:1");
  EXPECT_EQ(Fail(turns, "does not lead").told, "b:2: it is gone; a:1: does not lead");
  EXPECT_EQ(turns.target(), "b:2");
}

TargetTurns::Next Disbelieve(TargetTurns& turns) {
  return turns.Failed("another key", /*believed=*/false, kMin, kMax, kNoJitter);
}

TEST(TargetTurns, WhoIsNotBelievedIsPassedOverUntilNoneIs) {
  TargetTurns turns({"a:1", "b:2"});
  EXPECT_FALSE(Disbelieve(turns).none_believed);
  EXPECT_EQ(turns.target(), "b:2");
  EXPECT_FALSE(Fail(turns, "refused").none_believed) << "it may come";
  EXPECT_FALSE(Disbelieve(turns).none_believed);
  const TargetTurns::Next next = Disbelieve(turns);
  EXPECT_TRUE(next.none_believed);
  EXPECT_EQ(next.told, "a:1: another key; b:2: another key");
  EXPECT_FALSE(Fail(turns, "refused").none_believed) << "one was, before";
  EXPECT_FALSE(Disbelieve(turns).none_believed);
}

TEST(TargetTurns, OfOneThatIsNotBelievedNoneIs) {
  TargetTurns turns({"a:1"});
  EXPECT_TRUE(Disbelieve(turns).none_believed);
}

}  // namespace
}  // namespace muster
