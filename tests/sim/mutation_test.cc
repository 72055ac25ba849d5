// Does the simulator notice? Each hand-made bug of mutation.h, one at a time, must be found.
#include "proto/base/mutation.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/sim/sim.h"

namespace muster {

Mutation active_mutation = Mutation::kNone;

namespace sim {
namespace {

constexpr uint64_t kSeedsMax = 2000;

// The first run that breaks something; ok if none does.
Result FirstBroken(Mutation mutation) {
  active_mutation = mutation;
  Result result;
  for (uint64_t seed = 1; seed <= kSeedsMax && result.status.ok(); ++seed) {
    Options options;
    options.seed = seed;
    options.agents = seed % 2 == 0 ? 8 : 32;
    result = sim::Run(options);
    if (!result.status.ok()) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
                  std::string(result.status.message()).c_str());
    }
  }
  active_mutation = Mutation::kNone;
  return result;
}

class MutationTest : public testing::TestWithParam<int> {};

TEST_P(MutationTest, IsFound) {
  EXPECT_FALSE(FirstBroken(static_cast<Mutation>(GetParam())).status.ok())
      << "mutation " << GetParam() << " of proto/base/mutation.h survives " << kSeedsMax
      << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Each, MutationTest, testing::Range(1, static_cast<int>(Mutation::kLast)));

// The mutants' build without a mutation is the product.
TEST(Mutation, NoneIsClean) {
  const Result result = FirstBroken(Mutation::kNone);
  EXPECT_TRUE(result.status.ok()) << result.status.message();
}

}  // namespace
}  // namespace sim
}  // namespace muster
