#include "agent/core/look_pace.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr absl::Duration kMs = absl::Milliseconds(1);

// Asks as often as it wants for `span`, with looks that take `took`: how many looks there were.
int LooksWithin(LookPace& pace, absl::Duration span, absl::Duration took, int64_t& newest,
                int64_t begun_between_asks) {
  const absl::Time end = pace.next() + span;
  int looks = 0;
  while (pace.next() < end) {
    const absl::Time now = pace.next();
    newest += begun_between_asks;
    if (pace.Asked(now, newest)) {
      ++looks;
      pace.Looked(now, took);
    }
  }
  return looks;
}

TEST(LookPace, TheNewestProcessIsTheLastWord) {
  EXPECT_EQ(ParseNewestProcess("0.06 0.05 0.01 1/79 1792\n"), 1792);
  EXPECT_EQ(ParseNewestProcess("0.00 0.00 0.00 0/0 0\n"), 0);
  for (const char* const text :
       {"", "\n", "12", "0.1 0.2 0.3 1/2 x", "0.1 0.2 0.3 1/2 -7", "1 99999999999999999999"}) {
    EXPECT_EQ(ParseNewestProcess(text), 0) << text;
  }
}

TEST(LookPace, NothingIsAskedBeforeTheFirstStartAndAfterTheEnd) {
  LookPace pace;
  EXPECT_EQ(pace.next(), absl::InfiniteFuture());
  pace.Begin(kStart);
  EXPECT_EQ(pace.next(), kStart + LookPace::kAsk);
  pace.Begin(kStart + 50 * kMs);  // one that comes later does not put it off
  EXPECT_EQ(pace.next(), kStart + LookPace::kAsk);
  EXPECT_TRUE(pace.Asked(pace.next(), 7));
  pace.End();
  EXPECT_EQ(pace.next(), absl::InfiniteFuture());
}

TEST(LookPace, ANewProcessIsLookedForAtOnceAndOnceMore) {
  constexpr absl::Duration kTook = absl::Microseconds(250);
  LookPace pace;
  pace.Begin(kStart);
  int64_t newest = 7;
  EXPECT_EQ(LooksWithin(pace, absl::Seconds(2), kTook, newest, 0), 2);
  const absl::Time now = pace.next();
  EXPECT_TRUE(pace.Asked(now, newest + 1));
  pace.Looked(now, kTook);
  EXPECT_TRUE(pace.Asked(now + LookPace::kAsk, newest + 1)) << "it may have called setsid since";
  pace.Looked(now + LookPace::kAsk, kTook);
  EXPECT_FALSE(pace.Asked(now + 2 * LookPace::kAsk, newest + 1));
}

TEST(LookPace, LooksTakeASmallShareHoweverManyProcessesBegin) {
  LookPace pace;
  pace.Begin(kStart);
  int64_t newest = 0;
  EXPECT_LE(LooksWithin(pace, absl::Seconds(100), 8 * kMs, newest, 5), 42);  // 1/300
  EXPECT_GE(LooksWithin(pace, absl::Seconds(100), 8 * kMs, newest, 5), 40);
}

TEST(LookPace, WithoutNewProcessesTheyTakeMuchLess) {
  LookPace pace;
  pace.Begin(kStart);
  int64_t newest = 0;
  LooksWithin(pace, absl::Seconds(100), kMs, newest, 0);
  EXPECT_NEAR(LooksWithin(pace, absl::Seconds(1000), kMs, newest, 0), 100, 2);
}

TEST(LookPace, OneThatBeganWhileItWasTooEarlyIsNotForgotten) {
  LookPace pace;
  pace.Begin(kStart);
  int64_t newest = 7;
  EXPECT_EQ(LooksWithin(pace, absl::Seconds(1), 7 * kMs, newest, 0), 1);  // not again for 2.1 s
  ++newest;
  EXPECT_EQ(LooksWithin(pace, absl::Seconds(1), 7 * kMs, newest, 0), 0);
  EXPECT_EQ(LooksWithin(pace, absl::Milliseconds(300), 7 * kMs, newest, 0), 1);
}

TEST(LookPace, EvenALookThatTakesASecondComesAgain) {
  LookPace pace;
  pace.Begin(kStart);
  int64_t newest = 0;
  LooksWithin(pace, absl::Seconds(100), absl::Seconds(1), newest, 0);
  EXPECT_NEAR(LooksWithin(pace, absl::Seconds(300), absl::Seconds(1), newest, 0), 10, 1);
}

}  // namespace
}  // namespace muster
