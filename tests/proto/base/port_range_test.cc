#include "proto/base/port_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PortRange, EachOnceFromAnyOneOn) {
  const PortRange range{20000, 20003};
  EXPECT_THAT(PortsToTry(range, 0), ElementsAre(20000, 20001, 20002, 20003));
  EXPECT_THAT(PortsToTry(range, 6), ElementsAre(20002, 20003, 20000, 20001));
  EXPECT_THAT(PortsToTry(range, UINT64_MAX), ElementsAre(20003, 20000, 20001, 20002));
  EXPECT_THAT(PortsToTry({65535, 65535}, 7), ElementsAre(65535));
  EXPECT_EQ(PortsToTry({1, 65535}, 5).size(), 65535u);
}

TEST(PortRange, JobsBeginAtDifferentOnes) {
  std::set<uint16_t> first;
  for (int i = 0; i < 20; ++i) {
    first.insert(PortsToTry({20000, 59999}).front());
  }
  EXPECT_GT(first.size(), 10u);
}

TEST(PortRange, NoneLeftNamesFlagAndRange) {
  EXPECT_THAT(std::string(NoPortLeft({20000, 20003}).message()),
              HasSubstr("--port-range 20000-20003: every port of it is in use"));
}

}  // namespace
}  // namespace muster
