// The simulator in every test run: many seeds with faults, and that a seed is a seed.
#include "tests/sim/sim.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::sim {
namespace {

Options Seed(uint64_t seed, uint32_t agents) {
  Options options;
  options.seed = seed;
  options.agents = agents;
  return options;
}

// `build/.../muster-sim ... --trace 1` shows every event of a run that failed.
void Expect(const Options& options) {
  const Result result = sim::Run(options);
  EXPECT_TRUE(result.status.ok()) << "seed " << options.seed << ": " << result.status.message()
                                  << "\nrepeat: " << CommandLine(options);
}

TEST(Sim, TwoHundredSeedsOf64Agents) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Expect(Seed(seed, 64));
  }
}

TEST(Sim, SmallJobs) {
  for (const uint32_t agents : {1u, 2u, 3u, 8u}) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      Expect(Seed(seed, agents));
    }
  }
}

TEST(Sim, FaultsAreInjectedAndJobsEndInEveryWay) {
  uint32_t faults = 0;
  uint32_t racks = 0;
  uint32_t came_back = 0;
  uint32_t regroupings = 0;
  std::set<CauseKind> causes;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Result result = sim::Run(Seed(seed, 8));
    faults += result.faults;
    racks += result.racks;
    came_back += result.came_back;
    regroupings += result.report.regroupings;
    causes.insert(result.report.cause);
  }
  EXPECT_GT(faults, 100u);
  EXPECT_GT(came_back, 20u);
  EXPECT_GT(regroupings, 5u);
  EXPECT_GT(racks, 20u);
  EXPECT_EQ(causes, (std::set<CauseKind>{CauseKind::kNone, CauseKind::kNodeLost, CauseKind::kWorker,
                                         CauseKind::kUser, CauseKind::kNeverFormed}));
}

TEST(Sim, RoundsGrow) {
  uint32_t grown = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    grown += sim::Run(Seed(seed, 32)).grown;
  }
  EXPECT_GT(grown, 5u);
}

TEST(Sim, MastersAreKilledAndOthersTakeOver) {
  uint32_t taken_over = 0;
  uint32_t went_on = 0;  // a round that a master had started ended well with another
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Result result = sim::Run(Seed(seed, 8));
    taken_over += result.taken_over;
    went_on += result.went_on ? 1 : 0;
  }
  EXPECT_GT(taken_over, 50u);
  EXPECT_GT(went_on, 10u);
}

TEST(Sim, WithoutFaultsTheJobSucceedsInOneRound) {
  Options options = Seed(7, 64);
  options.faults = false;
  const Result result = sim::Run(options);
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(result.report.exit_code, 0);
  EXPECT_EQ(result.rounds, 1u);
}

TEST(Sim, SameSeedSameDigest) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Result first = sim::Run(Seed(seed, 64));
    const Result second = sim::Run(Seed(seed, 64));
    EXPECT_EQ(first.digest, second.digest) << CommandLine(Seed(seed, 64));
    EXPECT_EQ(first.events, second.events);
    EXPECT_NE(first.digest, sim::Run(Seed(seed + 1000, 64)).digest);
  }
}

}  // namespace
}  // namespace muster::sim
