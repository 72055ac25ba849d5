#include "worker_sdk/algorithm/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "proto/base/rng.h"
#include "proto/base/worker_link.h"
#include "tests/worker_sdk/layouts.h"

namespace muster {
namespace {

using testing::ElementsAre;

// Two nodes: ranks 0, 2, 4 and 1, 3.
Layout Five() { return Deal({3, 2}, true); }

TEST(SplitTest, ColorsMakeGroupsAndKeysOrderThem) {
  const std::vector<SplitWish> wishes = {{0, 5}, {7, 0}, {0, -1}, {0, 5}, {-1, 0}};
  const SplitGroup group = GroupOf(Five(), wishes, 3);
  EXPECT_EQ(group.rank, 2u);  // behind rank 2 for its key, and rank 0 for its rank
  const Layout& layout = group.layout;
  ASSERT_EQ(layout.world(), 3u);
  ASSERT_EQ(layout.nodes(), 2u);
  EXPECT_THAT(layout.RanksOf(0), ElementsAre(0, 1));
  EXPECT_THAT(layout.RanksOf(1), ElementsAre(2));
  EXPECT_EQ(layout.NameOf(0), "rank 0 (2 of the job)");
  EXPECT_EQ(layout.NameOf(1), "rank 1 (0 of the job)");
  EXPECT_EQ(layout.NameOf(2), "rank 2 (3 of the job)");
}

TEST(SplitTest, NodesWithoutARankOfTheGroupAreNotOfIt) {
  const SplitGroup alone = GroupOf(Five(), {{0, 0}, {1, 0}, {0, 0}, {2, 0}, {0, 0}}, 3);
  EXPECT_EQ(alone.rank, 0u);
  EXPECT_EQ(alone.layout.world(), 1u);
  EXPECT_EQ(alone.layout.nodes(), 1u);
  EXPECT_EQ(alone.layout.InJob(0), 3u);
}

TEST(SplitTest, AGroupOfAGroupStillKnowsTheJobsRanks) {
  const std::vector<SplitWish> odd = {{0, 0}, {1, 3}, {0, 0}, {1, 1}, {1, 2}};
  const SplitGroup outer = GroupOf(Five(), odd, 1);  // ranks 3, 4, 1 of the job
  EXPECT_EQ(outer.rank, 2u);
  const SplitGroup inner = GroupOf(outer.layout, {{4, 0}, {5, 0}, {4, 0}}, 2);
  EXPECT_EQ(inner.rank, 1u);
  EXPECT_EQ(inner.layout.NameOf(0), "rank 0 (3 of the job)");
  EXPECT_EQ(inner.layout.NameOf(1), "rank 1") << "it is the same one";
  EXPECT_EQ(Five().NameOf(1), "rank 1");
}

// Slow and plain: every rank of the group by sorting all of them.
std::vector<uint32_t> MembersOf(const std::vector<SplitWish>& wishes, int64_t color) {
  std::set<std::tuple<int64_t, uint32_t>> sorted;
  for (uint32_t rank = 0; rank < wishes.size(); ++rank) {
    if (wishes[rank].color == color) {
      sorted.emplace(wishes[rank].key, rank);
    }
  }
  std::vector<uint32_t> out;
  out.reserve(sorted.size());
  for (const auto& [key, rank] : sorted) {
    out.push_back(rank);
  }
  return out;
}

void ExpectGroup(const Layout& all, const std::vector<SplitWish>& wishes, uint32_t rank) {
  const SplitGroup group = GroupOf(all, wishes, rank);
  const Layout& layout = group.layout;
  const std::vector<uint32_t> members = MembersOf(wishes, wishes[rank].color);
  ASSERT_EQ(layout.world(), members.size());
  ASSERT_EQ(members[group.rank], rank);
  uint32_t before = 0;  // the node of `all`, and 1
  uint32_t seen = 0;
  for (uint32_t node = 0; node < layout.nodes(); ++node) {
    const std::vector<uint32_t> here = layout.RanksOf(node);
    ASSERT_FALSE(here.empty());
    ASSERT_TRUE(std::is_sorted(here.begin(), here.end()));
    const uint32_t node_of_all = all.SeatOf(members[here[0]]).node;
    ASSERT_GE(node_of_all, before);
    before = node_of_all + 1;
    for (const uint32_t one : here) {
      ASSERT_EQ(all.SeatOf(members[one]).node, node_of_all);
      ASSERT_EQ(layout.InJob(one), all.InJob(members[one]));
      ++seen;
    }
  }
  ASSERT_EQ(seen, members.size());
}

TEST(SplitTest, EveryRankOfRandomWorldsGetsItsGroup) {
  SplitMix64 rng(42);
  for (int i = 0; i < 300; ++i) {
    std::vector<uint32_t> sizes(1 + rng.Below(6));
    for (uint32_t& size : sizes) {
      size = static_cast<uint32_t>(1 + rng.Below(6));
    }
    const Layout all = Deal(sizes, i % 2 == 0);
    const uint64_t colors = 1 + rng.Below(i % 3 == 0 ? 1 : 8);
    std::vector<SplitWish> wishes(all.world());
    for (SplitWish& wish : wishes) {
      wish = {static_cast<int64_t>(rng.Below(colors + 1)) - (i % 3 == 0 ? 0 : 1),
              static_cast<int64_t>(rng.Below(5)) - 2};
    }
    for (uint32_t rank = 0; rank < all.world(); ++rank) {
      if (wishes[rank].color >= 0) {
        ASSERT_NO_FATAL_FAILURE(ExpectGroup(all, wishes, rank)) << "world " << i;
      }
    }
  }
}

TEST(SplitTest, NumbersDiffer) {
  std::set<uint64_t> seen;
  size_t made = 0;
  for (const uint64_t parent : {uint64_t{0}, uint64_t{1}, kGroupMin, GroupNumber(0, 0, 0)}) {
    for (uint64_t splits = 0; splits < 30; ++splits) {
      for (const int64_t color : {INT64_MAX, INT64_MAX - 1}) {
        seen.insert(GroupNumber(parent, splits, color));
        ++made;
      }
      for (int64_t color = 0; color < 100; ++color) {
        const uint64_t number = GroupNumber(parent, splits, color);
        EXPECT_GE(number, kGroupMin);
        seen.insert(number);
        ++made;
      }
    }
  }
  EXPECT_EQ(seen.size(), made);
  EXPECT_EQ(GroupNumber(5, 6, 7), GroupNumber(5, 6, 7));
}

}  // namespace
}  // namespace muster
