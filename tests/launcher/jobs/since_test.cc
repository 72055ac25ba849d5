#include "launcher/jobs/since.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// 14:53:34 in a zone two hours east of Greenwich.
absl::TimeZone Zone() { return absl::FixedTimeZone(2 * 3600); }
absl::Time Now() { return absl::FromCivil(absl::CivilSecond(2026, 11, 22, 14, 53, 34), Zone()); }

absl::StatusOr<absl::Time> Since(const std::string& text) {
  return ParseSince({"--since", text}, Now(), Zone());
}

TEST(Since, TimesBackFromNow) {
  EXPECT_EQ(*Since("90s"), Now() - absl::Seconds(90));
  EXPECT_EQ(*Since("10m"), Now() - absl::Minutes(10));
  EXPECT_EQ(*Since("1h30m"), Now() - absl::Minutes(90));
  EXPECT_EQ(*Since("2d"), Now() - absl::Hours(48));
  EXPECT_EQ(*Since("-2h"), Now() - absl::Hours(2));  // journalctl's
  EXPECT_EQ(*Since("0s"), Now());
}

TEST(Since, Moments) {
  const auto at = [](int day, int hour, int minute, int second) {
    return absl::FromCivil(absl::CivilSecond(2026, 11, day, hour, minute, second), Zone());
  };
  EXPECT_EQ(*Since("14:30"), at(22, 14, 30, 0));
  EXPECT_EQ(*Since("14:30:05"), at(22, 14, 30, 5));
  EXPECT_EQ(*Since("2026-11-21"), at(21, 0, 0, 0));
  EXPECT_EQ(*Since("2026-11-21 09:10"), at(21, 9, 10, 0));
  EXPECT_EQ(*Since("2026-11-21T09:10:11"), at(21, 9, 10, 11));
  EXPECT_EQ(*Since("2026-11-21T09:10:11+02:00"), at(21, 9, 10, 11));
  EXPECT_EQ(*Since("2026-11-21T09:10:11.5Z"), at(21, 11, 10, 11) + absl::Milliseconds(500));
  EXPECT_EQ(*Since("start"), absl::InfinitePast());
}

TEST(Since, WhatIsNone) {
  for (const char* text : {"", "-", "noon", "10", "-10", "1700000000", "10x", "5m ago", "25:00",
                           "1:2:3:4", "2026-13-01", "2026-11-21 9", "2026-11-21T09:10:11+02:00 x",
                           "-14:30", "infinite-past", "10M"}) {
    EXPECT_THAT(std::string(Since(text).status().message()),
                AllOf(HasSubstr("--since: want a time back from now (90s, 10m"),
                      HasSubstr(std::string("or start, got '") + text + "'")))
        << text;
  }
  EXPECT_EQ(Since("23:00").status().message(),
            "--since: '23:00' is still to come: now it is 2026-11-22T14:53:34+02:00");
}

}  // namespace
}  // namespace muster
