// Which ranks are on which host, where they do not fill one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/placement.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Ranks = std::vector<std::vector<uint32_t>>;

Ranks RanksOf(absl::string_view line, const std::string& file = "") {
  Ranks out;
  for (const NodeWorkers& node : SpecOf(line, file).nodes) {
    out.push_back(node.ranks);
    EXPECT_TRUE(node.ranks.empty() || node.ranks.size() == node.workers) << line;
  }
  return out;
}

std::string Refusal(absl::string_view line, const Environment& environment = {}) {
  return std::string(Resolve(Words(line), "", environment).status().message());
}

// What mpiexec.hydra does with the same words, as it was seen: as many at one time as a host has
// slots, or as -ppn says.
TEST(RankOrder, OfMpiexecsHostsGoesRoundAgain) {
  EXPECT_EQ(RanksOf("-hosts a,b -n 4 p"), (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf("-n 4 -hosts a,b p"), (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf("-hosts a:2,b:1 -n 5 p"), (Ranks{{0, 1, 3, 4}, {2}}));
  EXPECT_EQ(RanksOf("-hosts a,b -ppn 2 -n 6 p"), (Ranks{{0, 1, 4, 5}, {2, 3}}));
  EXPECT_EQ(RanksOf("-f hosts -n 5 p", "a:2\nb:1\n"), (Ranks{{0, 1, 3, 4}, {2}}));
  EXPECT_EQ(RanksOf("-hosts a:2,b:2 -n 4 p"), (Ranks{{}, {}}));  // in order: not said
  EXPECT_EQ(RanksOf("-hosts a,b -n 1 p : -n 3 q"), (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf("-hosts a,b -n 3 p : -hosts b -n 1 q"), (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf("--hosts a,b -n 4 --oversubscribe p"), (Ranks{{}, {}}));  // mpirun's
}

TEST(RankOrder, ByNodeDealsOneToEachInTurn) {
  EXPECT_EQ(RanksOf("--hosts a:2,b:2 --map-by node -n 4 p"), (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf("--hosts a:3,b:1 --map-by node p"), (Ranks{{0, 2, 3}, {1}}));
  EXPECT_EQ(RanksOf("--hosts a:4,b:4 --map-by node -n 3 p"), (Ranks{{0, 2}, {1}}));
  EXPECT_EQ(RanksOf("--hosts a,b --map-by node -ppn 2 p"), (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf("--hosts a,b --map-by node --nproc-per-node 2 p"), (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf("--hosts a,b --map-by node:OVERSUBSCRIBE -n 4 p"), (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf("--map-by node -hosts a:2,b:2 -n 4 p"), (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf("--hosts a:2 --map-by node -n 2 p"), (Ranks{{}}));
  EXPECT_EQ(SpecOf("--map-by node -n 3 p").plan.workers, 3u);  // one machine
}

TEST(RankOrder, ByNodeWantsHostsThatStayAndCounts) {
  EXPECT_THAT(Refusal("--hosts a,b,c --nnodes 2:3 --nproc-per-node 2 --map-by node p"),
              HasSubstr("--map-by node and --nnodes 2:3 contradict: ranks are dealt out to nodes"));
  EXPECT_THAT(Refusal("--hosts a,b,c --spares 1 --nproc-per-node 2 --map-by node p"),
              HasSubstr("--map-by node and --spares 1 contradict"));
  EXPECT_THAT(Refusal("--hosts a,b --nproc-per-node auto --map-by node p"),
              HasSubstr("--map-by node: say how many workers each node has: -ppn N"));
  EXPECT_THAT(Refusal("--nnodes 2 --rdzv-endpoint a:29400 --map-by node p"),
              HasSubstr("say --hosts or --hostfile, too"));
  EXPECT_THAT(Refusal("--nnodes 2 --map-by node p"), HasSubstr("say --hosts or --hostfile, too"));
  EXPECT_THAT(Refusal("--map-by node p", SlurmTask("0")),
              HasSubstr("--map-by node: srun has started launch on every node"));
}

}  // namespace
}  // namespace muster
