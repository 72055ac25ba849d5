#include "agent/core/spare_ports.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(HasPortToSpare, OfAnyThereAreAlwaysSome) { EXPECT_TRUE(HasPortToSpare({}, 100000)); }

TEST(HasPortToSpare, TheJobsOwnGoFirst) {
  EXPECT_TRUE(HasPortToSpare({20000, 20031}, 0));
  EXPECT_FALSE(HasPortToSpare({20000, 20030}, 0));
  EXPECT_TRUE(HasPortToSpare({20000, 20047}, 16));
  EXPECT_FALSE(HasPortToSpare({20000, 20046}, 16));
  EXPECT_TRUE(HasPortToSpare({1, 65535}, 1024));
}

}  // namespace
}  // namespace muster
