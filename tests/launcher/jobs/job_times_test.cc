#include "launcher/jobs/job_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

absl::Time At(int64_t second) { return absl::FromUnixSeconds(second); }

TEST(TimeMarker, OneForEachSecondWithOutput) {
  TimeMarker marker(100);
  EXPECT_EQ(marker.Next(At(50) + absl::Milliseconds(300), 0), (TimeMark{50, 1, 0}));
  EXPECT_EQ(marker.Next(At(50) + absl::Milliseconds(999), 10), std::nullopt);
  EXPECT_EQ(marker.Next(At(51), 20), (TimeMark{51, 1, 20}));
  EXPECT_EQ(marker.Next(At(900), 30), (TimeMark{900, 1, 30}));
  EXPECT_EQ(marker.Next(At(40), 40), (TimeMark{40, 1, 40}));  // the clock was set back
}

TEST(TimeMarker, TheLongerTheFurtherApart) {
  TimeMarker marker(4);
  std::vector<int64_t> seconds;
  for (int64_t second = 0; second < 60; ++second) {
    if (marker.Next(At(second), 0).has_value()) {
      seconds.push_back(second);
    }
  }
  EXPECT_THAT(seconds, ElementsAre(0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 36, 44, 52));
  TimeMarker year(32);
  size_t marks = 0;
  for (int64_t minute = 0; minute < int64_t{365} * 24 * 60; ++minute) {
    marks += year.Next(At(minute * 60), 0).has_value() ? 1 : 0;
  }
  EXPECT_LT(marks, 1000u);
}

TEST(TimeMarks, ReadsWhatItWrote) {
  const std::vector<TimeMark> marks = {{1795359214, 1, 0}, {1795359215, 2, 18446744073709551615u}};
  const std::string text = TimeMarkLine(marks[0]) + TimeMarkLine(marks[1]);
  EXPECT_EQ(ParseTimeMarks(text), marks);
  EXPECT_EQ(ParseTimeMarks(text + "179535"), marks);  // is being written
  EXPECT_EQ(ParseTimeMarks(""), std::vector<TimeMark>());
  for (const char* nonsense : {"\n", "1 2\n", "1 2 3 4\n", "1 x 3\n", "1 2 -3\n"}) {
    EXPECT_EQ(ParseTimeMarks(nonsense), std::nullopt) << nonsense;
  }
}

TEST(MarkSince, TheFirstBehindWhichItMayStand) {
  const std::vector<TimeMark> marks = {{100, 1, 0}, {200, 10, 50}, {300, 10, 60}};
  const auto place = [&](int64_t second) {
    const std::optional<TimeMark> mark = MarkSince(marks, At(second));
    return mark.has_value() ? static_cast<int64_t>(mark->place) : -1;
  };
  EXPECT_EQ(place(0), 0);
  EXPECT_EQ(place(100), 0);
  EXPECT_EQ(place(101), 50);
  EXPECT_EQ(place(209), 50);  // the span of the second mark
  EXPECT_EQ(place(210), 60);
  EXPECT_EQ(place(310), -1);
  EXPECT_EQ(MarkSince({}, At(0)), std::nullopt);
}

}  // namespace
}  // namespace muster
