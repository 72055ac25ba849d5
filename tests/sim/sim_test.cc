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
Result Expect(const Options& options) {
  Result result = sim::Run(options);
  EXPECT_TRUE(result.status.ok()) << "seed " << options.seed << ": " << result.status.message()
                                  << "\nrepeat: " << CommandLine(options);
  return result;
}

// What many runs have seen between them; each is checked by itself.
struct Seen {
  uint32_t faults = 0;
  uint32_t racks = 0;
  uint32_t came_back = 0;
  uint32_t regroupings = 0;
  uint32_t grown = 0;
  uint32_t taken_over = 0;
  uint32_t went_on = 0;  // a round that a master had started ended well with another
  std::set<CauseKind> causes;
};

Seen Run200Seeds(uint32_t agents) {
  Seen seen;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Result result = Expect(Seed(seed, agents));
    seen.faults += result.faults;
    seen.racks += result.racks;
    seen.came_back += result.came_back;
    seen.regroupings += result.report.regroupings;
    seen.grown += result.grown;
    seen.taken_over += result.taken_over;
    seen.went_on += result.went_on ? 1 : 0;
    seen.causes.insert(result.report.cause);
  }
  return seen;
}

TEST(Sim, TwoHundredSeedsOf64Agents) { Run200Seeds(64); }

TEST(Sim, RoundsGrow) { EXPECT_GT(Run200Seeds(32).grown, 5u); }

TEST(Sim, SmallJobs) {
  for (const uint32_t agents : {1u, 2u, 3u}) {
    Run200Seeds(agents);
  }
}

TEST(Sim, FaultsAreInjectedAndJobsEndInEveryWay) {
  const Seen seen = Run200Seeds(8);
  EXPECT_GT(seen.faults, 100u);
  EXPECT_GT(seen.came_back, 20u);
  EXPECT_GT(seen.regroupings, 5u);
  EXPECT_GT(seen.racks, 20u);
  EXPECT_EQ(seen.causes,
            (std::set<CauseKind>{CauseKind::kNone, CauseKind::kNodeLost, CauseKind::kWorker,
                                 CauseKind::kUser, CauseKind::kNeverFormed}));
  EXPECT_GT(seen.taken_over, 50u);  // masters that were killed
  EXPECT_GT(seen.went_on, 10u);
}

TEST(Sim, WithoutFaultsTheJobSucceedsInOneRound) {
  Options options = Seed(7, 64);
  options.faults = false;
  const Result result = sim::Run(options);
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(result.report.exit_code, 0);
  EXPECT_EQ(result.rounds, 1u);
}

// The whole job stands still for any time, and goes on as if nothing was.
TEST(Sim, AStandstillOfAllCostsNothing) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Options options = Seed(seed, 1 + static_cast<uint32_t>(seed) % 8);
    options.faults = false;
    options.standstill = absl::Milliseconds(397) * static_cast<int64_t>(seed);
    const Result result = Expect(options);
    EXPECT_EQ(result.report.exit_code, 0) << seed << ": " << result.report.headline;
    EXPECT_EQ(result.rounds, 1u) << seed;
  }
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
