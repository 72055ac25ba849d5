#include "launcher/proctable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::string NodeName(uint32_t node_rank) { return absl::StrCat("n", node_rank); }

// Two nodes, of which the second has ranks 0 and 3.
RoundState TwoNodes() {
  RoundState state;
  state.world_size = 4;
  state.members.push_back({NodeId{7}, {}, Rank{1}, 2, {}});
  state.members.push_back({NodeId{2}, {}, Rank{0}, 2, {0, 3}});
  state.nodes[NodeId{7}].pids = {101, 102};
  state.nodes[NodeId{2}].pids = {200, 203};
  return state;
}

TEST(Proctable, IsByRankWhereverTheNodeIs) {
  WorkPlan plan;
  plan.further.push_back({2, {"./b"}, "", {}});
  EXPECT_THAT(ProctableOf(TwoNodes(), plan, {"/a", "/b"}, NodeName),
              ElementsAre(ProctableEntry{"n1", "/a", 200}, ProctableEntry{"n0", "/a", 101},
                          ProctableEntry{"n0", "/b", 102}, ProctableEntry{"n1", "/b", 203}));
}

TEST(Proctable, AsText) {
  EXPECT_EQ(ProctableText({{"a", "/bin/x y", 7}, {"b", "/p", 8}}),
            "rank\thost\tpid\texecutable\n0\ta\t7\t/bin/x y\n1\tb\t8\t/p\n");
}

}  // namespace
}  // namespace muster
