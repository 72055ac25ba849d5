#include "agent/core/pmix_world.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "agent/core/rank_map.h"

namespace muster {
namespace {

using Ranks = std::vector<std::vector<uint32_t>>;

// Three nodes of 2, 2 and 1 workers.
Assignment Uneven(uint32_t node) {
  Assignment a;
  a.round = {1, 7};
  a.node_rank = NodeRank{node};
  a.nodes = 3;
  a.workers = node == 2 ? 1 : 2;
  a.rank_first = Rank{2 * node};
  a.world_size = 5;
  a.layout = {{2, 2}, {1, 1}};
  return a;
}

PmixWorld WorldOf(const Assignment& assignment) {
  WorkPlan plan;
  plan.job_id = "j";
  return PmixWorldOf(plan, assignment, "here", "/f");
}

TEST(PmixWorldTest, SaysWhoIsWhere) {
  const PmixWorld world = WorldOf(Uneven(1));
  EXPECT_EQ(world.name, "muster-j-1-7");
  EXPECT_EQ(world.folder, "/f");
  EXPECT_EQ(world.size(), 5u);
  EXPECT_EQ(world.ranks, (Ranks{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(PmixProcMap(world), "0,1;2,3;4");
  EXPECT_EQ(PmixNodeMap(world), "muster-node-0,here,muster-node-2");
  EXPECT_EQ(PmixLocalPeers(world), "2,3");
  EXPECT_EQ(world.LocalOf(3), LocalRank{1});
  EXPECT_EQ(world.LocalOf(1), std::nullopt) << "on another node";
  EXPECT_EQ(world.LocalOf(5), std::nullopt) << "nowhere";
  EXPECT_EQ(world.apps, (std::vector<uint32_t>{0, 0, 0, 0, 0}));
}

TEST(PmixWorldTest, X1AllNodesPlaceARankAlike) {
  for (uint32_t node = 0; node < 3; ++node) {
    const PmixWorld world = WorldOf(Uneven(node));
    EXPECT_EQ(world.ranks, WorldOf(Uneven(0)).ranks);
    EXPECT_EQ(world.name, WorldOf(Uneven(0)).name);
    const RankMap map(Uneven(node));
    for (uint32_t at = 0; at < 3; ++at) {
      for (const uint32_t rank : world.ranks[at]) {
        EXPECT_EQ(map.NodeOf(Rank{rank}), NodeRank{at});
      }
    }
  }
}

TEST(PmixWorldTest, RanksThatWereAskedForStandByTheirLocalRank) {
  Assignment a = Uneven(0);
  a.ranks_by_node = {4, 0, 3, 1, 2};
  a.ranks = {4, 0};
  const PmixWorld world = WorldOf(a);
  EXPECT_EQ(world.ranks, (Ranks{{4, 0}, {3, 1}, {2}}));
  EXPECT_EQ(world.LocalOf(4), LocalRank{0});
  EXPECT_EQ(PmixProcMap(world), "4,0;3,1;2");
}

TEST(PmixWorldTest, X2NoOtherNodeHasTheNameOfThisOne) {
  for (uint32_t node = 0; node < 3; ++node) {
    const PmixWorld world = WorldOf(Uneven(node));
    EXPECT_EQ(world.hosts[node], "here");
    EXPECT_EQ(std::set<std::string>(world.hosts.begin(), world.hosts.end()).size(), 3u);
  }
}

TEST(PmixWorldTest, ALongJobNameIsCut) {
  WorkPlan plan;
  plan.job_id = std::string(300, 'x');
  EXPECT_LT(PmixWorldOf(plan, Uneven(0), "here", "/f").name.size(), 100u) << "PMIX_MAX_NSLEN: 255";
}

}  // namespace
}  // namespace muster
