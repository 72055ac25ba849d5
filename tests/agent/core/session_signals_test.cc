#include "agent/core/session_signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

namespace muster {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

struct Act {
  char what;  // h = the session hears it, p = it is passed on
  double at_s;
  int signo = SIGTERM;
};
struct Case {
  const char* name;
  double started_s;  // the worker
  std::vector<Act> acts;
  std::string want;  // a letter for each that is passed on: t = the worker is told, h = has it
};

class SessionSignalsTest : public testing::TestWithParam<Case> {};

TEST_P(SessionSignalsTest, TellsWhoHasNotBeenTold) {
  SessionSignals signals;
  std::string got;
  for (const Act& act : GetParam().acts) {
    if (act.what == 'h') {
      signals.Heard(act.signo, At(act.at_s));
    } else {
      const bool has = At(GetParam().started_s) <= signals.Reached(act.signo, At(act.at_s));
      got += has ? 'h' : 't';
    }
  }
  EXPECT_EQ(got, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Signals, SessionSignalsTest,
    testing::Values(
        Case{"nobody_but_us", 0, {{'p', 10}}, "t"},
        Case{"B1_the_same", 0, {{'h', 10}, {'p', 10.01}}, "h"},
        Case{"B1_one_stands_for_one", 0, {{'h', 10}, {'p', 10.01}, {'p', 10.02}}, "ht"},
        Case{"B1_each_for_its_own", 0, {{'h', 10}, {'p', 10.1}, {'h', 11}, {'p', 11.1}}, "hh"},
        Case{"B1_long_ago", 0, {{'h', 10}, {'p', 13}}, "t"},
        Case{"B1_long_ago_and_now", 0, {{'h', 10}, {'p', 13}, {'h', 14}, {'p', 14.1}}, "th"},
        Case{"another_signal", 0, {{'h', 10, SIGUSR1}, {'p', 10.1}, {'p', 10.2, SIGUSR1}}, "th"},
        Case{"B2_too_young", 9.8, {{'h', 10}, {'p', 10.1}}, "t"},
        Case{"B2_started_meanwhile", 10.05, {{'h', 10}, {'p', 10.1}}, "t"},
        Case{"B2_old_enough", 9.6, {{'h', 10}, {'p', 10.1}}, "h"}),
    [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

TEST(SessionSignals, B3TheSchedulerIsRootAndOutside) {
  EXPECT_TRUE(IsForSession({.by_kill = true, .user = 0, .of_session = false}));
  EXPECT_FALSE(IsForSession({.by_kill = true, .user = 0, .of_session = true}));
  EXPECT_FALSE(IsForSession({.by_kill = true, .user = 1000, .of_session = false}));
  EXPECT_FALSE(IsForSession({.by_kill = false, .user = 0, .of_session = false}));
}

}  // namespace
}  // namespace muster
