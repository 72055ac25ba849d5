#include "worker_sdk/transport/patience.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace muster {
namespace {

using std::chrono::microseconds;
using Time = Patience::Time;

constexpr microseconds kMost{200};

// Waits for something that comes after `needs` if the core goes to whom it should, else only once
// we sleep; the time that was given away in vain.
Time Wait(Patience& patience, Time needs, bool reaches) {
  const Time window = patience.ForNext();
  const bool slept = !reaches || needs > window;
  patience.Ended(slept ? window + needs : needs, slept);
  return slept ? window : Time(0);
}

TEST(PatienceTest, AllOfItWhileItHelps) {
  Patience patience(kMost);
  for (int i = 0; i < 10000; ++i) {
    EXPECT_EQ(Wait(patience, microseconds(1 + i % 150), true), Time(0));
  }
  EXPECT_EQ(patience.ForNext(), kMost);
}

TEST(PatienceTest, LittleIsGivenAwayInVain) {
  Patience patience(kMost);
  constexpr int kWaits = 20000;
  Time lost(0);
  for (int i = 0; i < kWaits; ++i) {
    lost += Wait(patience, microseconds(10), false);
  }
  EXPECT_LT(lost, kWaits * microseconds(2));
  EXPECT_GT(lost, kWaits * Time(1000)) << "it never tries again";
}

TEST(PatienceTest, FindsOutThatItHelpsAgain) {
  for (const Time needs : {microseconds(3), microseconds(20), microseconds(100)}) {
    Patience patience(kMost);
    for (int i = 0; i < 5000; ++i) {
      Wait(patience, needs, false);
    }
    int until = 0;
    while (Wait(patience, needs, true) > Time(0)) {
      ASSERT_LT(++until, 1100);
    }
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(Wait(patience, needs, true), Time(0)) << i;
    }
  }
}

// One wait in ten is for a rank that computes.
TEST(PatienceTest, LongWaitsInBetweenDoNotSpoilShortOnes) {
  Patience patience(kMost);
  int slept = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool is_long = i % 10 == 0;
    const Time lost = Wait(patience, is_long ? microseconds(20000) : microseconds(30), true);
    slept += !is_long && lost > Time(0) ? 1 : 0;
  }
  EXPECT_EQ(slept, 0);
}

TEST(PatienceTest, NoneIsNone) {
  Patience patience{Time(0)};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(patience.ForNext(), Time(0));
    patience.Ended(microseconds(5), i % 2 == 0);
  }
}

}  // namespace
}  // namespace muster
