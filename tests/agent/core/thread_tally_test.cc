#include "agent/core/thread_tally.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

ThreadTimes Times(int ran, int waited) { return {absl::Seconds(ran), absl::Seconds(waited)}; }

void ExpectSum(const ThreadTally& tally, int ran, int waited) {
  EXPECT_EQ(tally.sum().ran, absl::Seconds(ran));
  EXPECT_EQ(tally.sum().waited, absl::Seconds(waited));
}

TEST(ThreadTally, CountsEachSpanOnce) {
  ThreadTally tally;
  tally.Take({{10, Times(4, 1)}, {11, Times(2, 2)}});
  ExpectSum(tally, 6, 3);
  tally.Take({{10, Times(5, 1)}, {11, Times(2, 4)}});
  ExpectSum(tally, 7, 5);
}

TEST(ThreadTally, KeepsWhatAnEndedThreadHadUsed) {
  ThreadTally tally;
  tally.Take({{10, Times(4, 1)}, {11, Times(2, 2)}});
  tally.Take({{10, Times(4, 1)}});
  tally.Take({{10, Times(4, 1)}, {11, Times(3, 3)}});  // another one, that has its number
  ExpectSum(tally, 9, 6);
}

TEST(ThreadTally, WhatALookDidNotReachMayLive) {
  ThreadTally tally;
  tally.Take({{10, Times(4, 1)}, {11, Times(2, 2)}});
  tally.Take({{10, Times(5, 1)}}, false);
  tally.Take({{10, Times(5, 1)}, {11, Times(3, 2)}});
  ExpectSum(tally, 8, 3);
}

TEST(ThreadTally, TimesThatFallAreAnotherThreads) {
  ThreadTally tally;
  tally.Take({{10, Times(4, 1)}});
  tally.Take({{10, Times(3, 2)}});
  ExpectSum(tally, 7, 3);
}

TEST(ThreadTally, LastWordsOfAnAwaitedThreadAddToWhatWasSeen) {
  ThreadTally tally;
  tally.Await(10);
  tally.Take({{10, Times(4, 1)}});
  tally.Take({});  // it has ended, and its last words are on their way
  tally.TakeLast(10, Times(6, 1));
  ExpectSum(tally, 6, 1);
  tally.Take({{10, Times(1, 1)}});  // from then on it is another one
  ExpectSum(tally, 7, 2);
}

TEST(ThreadTally, LastWordsOfOneThatWasNeverSeenCountInFull) {
  ThreadTally tally;
  tally.Await(10);
  tally.TakeLast(10, Times(6, 1));
  ExpectSum(tally, 6, 1);
}

TEST(ParseSchedstat, TakesTwoTimesAndACount) {
  EXPECT_EQ(ParseSchedstat("1500 200 3\n").ran, absl::Nanoseconds(1500));
  EXPECT_EQ(ParseSchedstat("1500 200 3\n").waited, absl::Nanoseconds(200));
  for (const char* text : {"", "1 2", "1 x 3", "-1 2 3", "1 2 3 4"}) {
    EXPECT_EQ(ParseSchedstat(text).ran, absl::ZeroDuration()) << text;
  }
}

TEST(ParsePressure, TakesTheTotalOfAnyProcess) {
  EXPECT_EQ(ParsePressure("some avg10=0.00 avg60=3.14 avg300=6.61 total=29377\n"
                          "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"),
            absl::Microseconds(29377));
  for (const char* text : {"", "full avg10=0.00 total=5\n", "some total=x\n", "some total=-4\n"}) {
    EXPECT_EQ(ParsePressure(text), absl::ZeroDuration()) << text;
  }
}

}  // namespace
}  // namespace muster
