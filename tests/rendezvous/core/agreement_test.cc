#include "rendezvous/core/agreement.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

AgreedOptions TwoOptions() { return {{"--nnodes", "2"}, {"program", "a.py"}}; }

TEST(FirstDifferenceTest, NoneWhateverTheOrder) {
  const AgreedOptions options = TwoOptions();
  EXPECT_FALSE(FirstDifference(options, options).has_value());
  EXPECT_FALSE(FirstDifference(options, {{"program", "a.py"}, {"--nnodes", "2"}}).has_value());
}

TEST(FirstDifferenceTest, AnotherValueOrNone) {
  const AgreedOptions options = TwoOptions();
  const AgreedOptions another = {{"--nnodes", "2"}, {"program", "b.py"}};
  const auto value = FirstDifference(options, another);
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->option, "program");
  EXPECT_EQ(*value->one, "a.py");
  EXPECT_EQ(*value->other, "b.py");
  const AgreedOptions fewer = {{"--nnodes", "2"}};
  const auto missing = FirstDifference(options, fewer);
  ASSERT_TRUE(missing.has_value());
  EXPECT_EQ(missing->option, "program");
  EXPECT_EQ(missing->other, nullptr);
  const auto more = FirstDifference(fewer, options);
  ASSERT_TRUE(more.has_value());
  EXPECT_EQ(more->one, nullptr);
  EXPECT_EQ(*more->other, "a.py");
}

}  // namespace
}  // namespace muster
