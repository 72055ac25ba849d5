#include "agent/core/target_turns.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr absl::Duration kMin = absl::Milliseconds(100);
constexpr absl::Duration kMax = absl::Milliseconds(500);
constexpr double kNoJitter = 0.5;

TargetTurns::Next Fail(TargetTurns& turns, const char* why) {
  return turns.Failed(why, kMin, kMax, kNoJitter);
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
  EXPECT_EQ(turns.Failed("", kMin, kMax, 0).wait, kMin);
  EXPECT_EQ(turns.Failed("", kMin, kMax, 1).wait, absl::Milliseconds(600));
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

}  // namespace
}  // namespace muster
