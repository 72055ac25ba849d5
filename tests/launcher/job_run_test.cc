#include "launcher/job_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/options.h"
#include "launcher/resolve.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(ConfigOf, NodesOfThisMachineHaveNamesForSentences) {
  EXPECT_THAT(ConfigOf(SpecOf("--standalone --nnodes 2 p")).expected,
              ElementsAre("node0", "node1"));
  EXPECT_THAT(ConfigOf(SpecOf("--hosts a,b p")).expected, ElementsAre("a", "b"));
}

TEST(ManyWorkers, OneWorkerOnOneHostIsNotMany) {
  EXPECT_FALSE(ManyWorkers(SpecOf("--hosts a p")));
  EXPECT_TRUE(ManyWorkers(SpecOf("--hosts a -n 2 --oversubscribe p")));
  EXPECT_TRUE(ManyWorkers(SpecOf("--hosts a --nproc-per-node auto p")));
  EXPECT_TRUE(ManyWorkers(SpecOf("--hosts a,b p")));
  EXPECT_TRUE(ManyWorkers(SpecOf("--standalone --nnodes 2 p")));
}

}  // namespace
}  // namespace muster
