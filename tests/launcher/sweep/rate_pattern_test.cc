#include "launcher/sweep/rate_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(RatePattern, TakesTheFirstGroupOfALine) {
  const absl::StatusOr<RatePattern> pattern = RatePattern::Compile("([0-9.]+) (it|step)s?/s");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_EQ(pattern->In("[2] step 7: 12.5 it/s, loss 0.1"), 12.5);
  EXPECT_EQ(pattern->In("3 steps/s"), 3.0);
  for (const char* line : {"", "12.5 tokens/s", "1.2.3 it/s", "0 it/s"}) {
    EXPECT_EQ(pattern->In(line), std::nullopt) << line;
  }
}

TEST(RatePattern, OfAGroupThatIsNotThereNothing) {
  const absl::StatusOr<RatePattern> pattern = RatePattern::Compile("x|rate=([0-9]+)");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_EQ(pattern->In("x"), std::nullopt);
  EXPECT_EQ(pattern->In("rate=4"), 4.0);
}

TEST(RatePattern, ThatIsNoneIsRefusedWithTheReason) {
  for (const char* text : {"(", "[a", "it/s", ""}) {
    const absl::Status status = RatePattern::Compile(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("--rate-regex: want an extended regular expression whose first group"));
  }
}

TEST(RateOf, IsTheMeanOfTheLaterHalf) {
  EXPECT_EQ(RateOf({}), std::nullopt);
  EXPECT_EQ(RateOf({4}), 4.0);
  EXPECT_EQ(RateOf({1, 3, 5}), 4.0);
  EXPECT_EQ(RateOf({1, 1, 4, 8}), 6.0);
}

}  // namespace
}  // namespace muster
