#include "agent/core/line_filter.h"

#include <gtest/gtest.h>

#include "proto/base/limits.h"

namespace muster {
namespace {

TEST(LineFilter, TakesWholeLinesWithOneOfTheWords) {
  LineFilter filter({"loss", "a b"}, "[3] ");
  EXPECT_EQ(filter.Put("epoch 1\nthe lo"), "");
  EXPECT_EQ(filter.Put("ss is 2\nLoss\n\na  b\na b and loss\n"),
            "[3] the loss is 2\n[3] a b and loss\n");
  EXPECT_EQ(filter.Put("no newline, but loss"), "");
  EXPECT_EQ(filter.Finish(), "[3] no newline, but loss\n");
  EXPECT_EQ(filter.Finish(), "");
}

TEST(LineFilter, ALineWithoutEndIsLookedAtInPieces) {
  LineFilter filter({"loss"}, "");
  const std::string begins = "loss" + std::string(kLineBytesMax, 'x');
  EXPECT_EQ(filter.Put(begins), begins + "\n");
  EXPECT_EQ(filter.Put("the rest\nloss\n"), "loss\n");
}

}  // namespace
}  // namespace muster
