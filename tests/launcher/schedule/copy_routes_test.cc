#include "launcher/schedule/copy_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "proto/base/rng.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Route = CopyRoutes::Route;

constexpr std::nullopt_t kLaunch = std::nullopt;
constexpr size_t kGone = 1000000;

void Want(CopyRoutes& routes, size_t nodes) {
  for (size_t i = 0; i < nodes; ++i) {
    routes.Wants(i);
  }
}

TEST(CopyRoutes, R1LaunchSendsFewAndWhoHasThemPassesThemOn) {
  CopyRoutes routes;
  Want(routes, 6);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{0, kLaunch}, Route{1, kLaunch}));
  EXPECT_THAT(routes.Begin(), IsEmpty());
  routes.Has(1);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{2, 1}, Route{3, 1}));
  routes.Has(0);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{4, 0}, Route{5, 0}));
  for (size_t i = 2; i < 6; ++i) {
    EXPECT_FALSE(routes.Settled());
    routes.Has(i);
  }
  EXPECT_TRUE(routes.Settled());
}

// 0 and 1 have it, and 2 gets it from 0.
CopyRoutes OneIsPassedOn() {
  CopyRoutes routes;
  Want(routes, 3);
  routes.Begin();
  routes.Has(0);
  routes.Has(1);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{2, 0}));
  return routes;
}

TEST(CopyRoutes, WhoGivesToTheFewestIsAskedFirst) {
  CopyRoutes routes = OneIsPassedOn();
  routes.Wants(3);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{3, 1}));
}

TEST(CopyRoutes, R2AfterMissesLaunchSendsThem) {
  CopyRoutes routes = OneIsPassedOn();
  routes.Missed(2);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{2, 1}));
  routes.Missed(2);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{2, kLaunch}));
}

TEST(CopyRoutes, NodesThatDoNotReachEachOtherAreNotTriedForEver) {
  CopyRouteBounds bounds;
  bounds.from_node = 100;
  CopyRoutes routes(bounds);
  routes.Wants(0);
  routes.Begin();
  routes.Has(0);
  for (size_t i = 1; i <= bounds.distrust_after; ++i) {
    routes.Wants(i);
    EXPECT_THAT(routes.Begin(), ElementsAre(Route{i, 0}));
  }
  for (size_t i = 1; i <= bounds.distrust_after; ++i) {
    routes.Missed(i);
  }
  routes.Wants(100);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{1, kLaunch}, Route{2, kLaunch}));
  routes.Has(1);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{3, kLaunch}));
}

TEST(CopyRoutes, R3TheGiverGoes) {
  CopyRoutes routes;
  Want(routes, 3);
  routes.Begin();
  routes.Has(0);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{2, 0}));
  routes.Gone(0);
  EXPECT_THAT(routes.Begin(), IsEmpty());  // 2 finds out by itself
  routes.Missed(2);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{2, kLaunch}));
  routes.Gone(1);
  routes.Gone(2);
  EXPECT_TRUE(routes.Settled());
}

TEST(CopyRoutes, R1ANewOneOfTheSameNumberDoesNotGiveWhatTheOldOneGave) {
  CopyRoutes routes;
  Want(routes, 4);
  routes.Begin();
  routes.Has(0);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{2, 0}, Route{3, 0}));
  routes.Gone(0);
  routes.Wants(0);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{0, kLaunch}));
  routes.Missed(2);
  routes.Has(0);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{2, 0}));
  routes.Missed(3);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{3, 0}));
  routes.Has(2);
  routes.Has(3);
  routes.Has(1);
  EXPECT_TRUE(routes.Settled());
}

TEST(CopyRoutes, OthersNeedNotWaitForASlowOne) {
  CopyRoutes routes;
  Want(routes, 5);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{0, kLaunch}, Route{1, kLaunch}));
  routes.Slow(1);
  routes.Slow(1);
  routes.Slow(4);  // it waits
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{2, kLaunch}));
  routes.Missed(1);
  EXPECT_THAT(routes.Begin(), IsEmpty());
  routes.Gone(0);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{1, kLaunch}));
  routes.Has(2);
  routes.Slow(1);
  routes.Has(1);
  EXPECT_THAT(routes.Begin(), ElementsAre(Route{3, 1}, Route{4, 2}));
}

// Nodes come, go, get the files and miss them at random; R1 to R3 hold after each event, and in the
// end all that are left have them.
TEST(CopyRoutes, RandomFailures) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SplitMix64 random(seed);
    const CopyRouteBounds bounds;
    CopyRoutes routes(bounds);
    std::map<size_t, Route> under_way;
    std::map<size_t, std::set<size_t>> missed;
    std::set<size_t> have;
    std::set<size_t> all;
    const size_t nodes = 1 + random.Next() % 40;
    // Some come back, as new ones.
    const auto leave = [&](size_t node) {
      routes.Gone(node);
      have.erase(node);
      all.erase(node);
      missed.erase(node);
      for (auto& [to, route] : under_way) {
        if (route.from == node) {
          route.from = kGone;
        }
      }
      if (random.Next() % 2 == 0) {
        routes.Wants(node);
        all.insert(node);
      }
    };
    size_t events = 0;
    for (size_t next = 0; next < nodes || !under_way.empty(); ++events) {
      ASSERT_LT(events, 20 * nodes + 100) << "seed " << seed;
      if (next < nodes && (under_way.empty() || random.Next() % 3 == 0)) {
        routes.Wants(next);
        all.insert(next++);
      } else {
        auto at = under_way.begin();
        std::advance(at, random.Next() % under_way.size());
        const Route route = at->second;
        const uint64_t dice = random.Next() % 10;
        under_way.erase(at);
        if (dice == 0) {
          leave(route.to);
        } else if (route.from.has_value() && (dice < 4 || have.count(*route.from) == 0)) {
          routes.Missed(route.to);
          missed[route.to].insert(*route.from);
        } else {
          routes.Has(route.to);
          have.insert(route.to);
          if (dice == 9) {  // and ends
            leave(route.to);
          }
        }
      }
      for (const Route& route : routes.Begin()) {
        ASSERT_TRUE(under_way.emplace(route.to, route).second) << "seed " << seed;
        if (route.from.has_value()) {
          const std::set<size_t>& there = missed[route.to];
          EXPECT_EQ(have.count(*route.from), 1u) << "seed " << seed;
          EXPECT_EQ(there.count(*route.from), 0u) << "seed " << seed;
          EXPECT_LT(there.size(), bounds.node_tries) << "seed " << seed;
        }
      }
      std::map<std::optional<size_t>, uint32_t> gives;
      for (const auto& [to, route] : under_way) {
        ++gives[route.from];
      }
      for (const auto& [from, count] : gives) {
        EXPECT_LE(count, from.has_value() ? bounds.from_node : bounds.from_launch);
      }
      EXPECT_EQ(routes.Settled(), have == all) << "seed " << seed;
      EXPECT_TRUE(routes.Settled() || !under_way.empty()) << "R3, seed " << seed;
    }
    EXPECT_EQ(have, all) << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster
