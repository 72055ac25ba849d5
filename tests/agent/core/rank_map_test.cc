#include "agent/core/rank_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "proto/base/rng.h"

namespace muster {
namespace {

// Nodes with these numbers of workers; `ranks`: of all, node by node, or empty.
Assignment Of(const std::vector<uint32_t>& workers, const std::vector<uint32_t>& ranks = {}) {
  Assignment a;
  a.nodes = static_cast<uint32_t>(workers.size());
  a.workers = workers[0];
  for (const uint32_t one : workers) {
    a.world_size += one;
    a.layout.emplace_back(one, 1);
  }
  a.ranks_by_node = ranks;
  a.ranks.assign(ranks.begin(), ranks.empty() ? ranks.end() : ranks.begin() + workers[0]);
  return a;
}

using Words = std::vector<uint32_t>;

TEST(RankMapTest, OneNodeHasAll) {
  const RankMap map(Of({3}));
  EXPECT_EQ(map.NodeOf(Rank{0}), NodeRank{0});
  EXPECT_EQ(map.NodeOf(Rank{2}), NodeRank{0});
  EXPECT_EQ(map.NodeOf(Rank{3}), std::nullopt);
  EXPECT_EQ(map.Words(), (Words{3, 0, 1, 2}));
}

TEST(RankMapTest, UnevenNodesInRuns) {
  Assignment a = Of({2, 2, 1});
  a.layout = {{2, 2}, {1, 1}};
  const RankMap map(a);
  EXPECT_EQ(map.NodeOf(Rank{1}), NodeRank{0});
  EXPECT_EQ(map.NodeOf(Rank{2}), NodeRank{1});
  EXPECT_EQ(map.NodeOf(Rank{3}), NodeRank{1});
  EXPECT_EQ(map.NodeOf(Rank{4}), NodeRank{2});
  EXPECT_EQ(map.NodeOf(Rank{5}), std::nullopt);
  EXPECT_EQ(map.NodeOf(Rank{0xffffffff}), std::nullopt);
  EXPECT_EQ(map.Words(), (Words{2, 2, 1, 0, 1, 2, 3, 4}));
}

TEST(RankMapTest, RanksThatWereAskedForAreSortedWithinTheirNode) {
  const RankMap map(Of({2, 3}, {4, 0, 3, 1, 2}));
  EXPECT_EQ(map.NodeOf(Rank{4}), NodeRank{0});
  EXPECT_EQ(map.NodeOf(Rank{0}), NodeRank{0});
  EXPECT_EQ(map.NodeOf(Rank{2}), NodeRank{1});
  EXPECT_EQ(map.NodeOf(Rank{5}), std::nullopt);
  EXPECT_EQ(map.Words(), (Words{2, 3, 0, 4, 1, 2, 3}));
}

TEST(RankMapTest, OfNoRoundKnowsNoRank) {
  EXPECT_EQ(RankMap().NodeOf(Rank{0}), std::nullopt);
  EXPECT_TRUE(RankMap().Words().empty());
}

TEST(RankMapTest, R1EveryRankIsOfOneNodeAsTheWordsSay) {
  SplitMix64 rng(1);
  for (int i = 0; i < 500; ++i) {
    std::vector<uint32_t> workers(1 + rng.Below(9));
    uint32_t world = 0;
    for (uint32_t& one : workers) {
      world += one = 1 + static_cast<uint32_t>(rng.Below(5));
    }
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; i % 2 == 0 && rank < world; ++rank) {
      ranks.insert(ranks.begin() + static_cast<ptrdiff_t>(rng.Below(rank + 1)), rank);
    }
    const RankMap map(Of(workers, ranks));
    const Words words = map.Words();
    ASSERT_EQ(words.size(), workers.size() + world);
    ASSERT_TRUE(std::equal(workers.begin(), workers.end(), words.begin()));
    auto at = words.begin() + static_cast<ptrdiff_t>(workers.size());
    for (uint32_t node = 0; node < workers.size(); ++node) {
      ASSERT_TRUE(std::is_sorted(at, at + workers[node]));
      for (uint32_t end = workers[node]; end > 0; --end, ++at) {
        ASSERT_EQ(map.NodeOf(Rank{*at}), NodeRank{node});
      }
    }
  }
}

}  // namespace
}  // namespace muster
