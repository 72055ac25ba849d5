#include "agent/core/ship_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(ShipDir, WorkersRunThereUnlessTheyAreToldWhere) {
  WorkPlan plan;
  plan.env_set = {"A=1"};
  plan.further = {{1, {"b"}, "sub", {}}, {2, {"c"}, "/data", {}}};
  RunInShipDir("/f", plan);
  EXPECT_EQ(plan.wdir, "/f");
  EXPECT_EQ(plan.further[0].wdir, "/f/sub");
  EXPECT_EQ(plan.further[1].wdir, "/data");
  EXPECT_THAT(plan.env_set, ElementsAre("A=1", "MUSTER_SHIP_DIR=/f"));
  EXPECT_THAT(plan.further[1].env_set, ElementsAre("MUSTER_SHIP_DIR=/f"));
}

}  // namespace
}  // namespace muster
