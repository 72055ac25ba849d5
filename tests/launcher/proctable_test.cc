#include "launcher/proctable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::string NodeName(NodeId node) { return absl::StrCat("n", node.value); }

// Two nodes, of which the second has ranks 0 and 3.
RoundState TwoNodes() {
  RoundState state;
  state.world_size = 4;
  state.members.push_back({NodeId{7}, {}, Rank{1}, 2, {}, 0, {}});
  state.members.push_back({NodeId{2}, {}, Rank{0}, 2, {0, 3}, 0, {}});
  state.nodes[NodeId{7}].pids = {101, 102};
  state.nodes[NodeId{2}].pids = {200, 203};
  return state;
}

TEST(Proctable, IsByRankWhereverTheNodeIs) {
  WorkPlan plan;
  plan.further.push_back({2, {"./b"}, "", {}});
  EXPECT_THAT(ProctableOf(TwoNodes(), plan, {"/a", "/b"}, NodeName),
              ElementsAre(ProctableEntry{"n2", "/a", 200}, ProctableEntry{"n7", "/a", 101},
                          ProctableEntry{"n7", "/b", 102}, ProctableEntry{"n2", "/b", 203}));
}

TEST(Proctable, AsText) {
  EXPECT_EQ(ProctableText({{"a", "/bin/x y", 7}, {"b", "/p", 8}}),
            "rank\thost\tpid\texecutable\n0\ta\t7\t/bin/x y\n1\tb\t8\t/p\n");
}

class ProctableStopTest : public LoopTest {
 protected:
  ProctableStopTest() {
    state_.phase = JobPhase::kRunning;
    state_.round = {1, 1};
    spec_.plan.argv = {"true"};
    spec_.plan.hold = spec_.plan.tell_pids = true;
    spec_.proctable_file = ::testing::TempDir() + "/muster-proctable";
    unlink(spec_.proctable_file.c_str());
  }
  bool Published() const { return access(spec_.proctable_file.c_str(), F_OK) == 0; }

  RoundState state_ = TwoNodes();
  JobSpec spec_;
  int looks_ = 0;
  std::vector<bool> asked_;
  ProctableStop stop_{&loop_,
                      spec_,
                      {[this] {
                         ++looks_;
                         return &state_;
                       },
                       [this](bool paused) {
                         asked_.push_back(paused);
                         state_.paused = paused;
                       },
                       NodeName}};
};

TEST_F(ProctableStopTest, TheTableIsShownWhenEveryNodeHasPaused) {
  stop_.Started();
  EXPECT_THAT(asked_, ElementsAre(true));
  state_.nodes[NodeId{7}].paused = true;
  ASSERT_TRUE(RunUntil([this] { return looks_ > 3; }));
  EXPECT_FALSE(Published());
  EXPECT_TRUE(stop_.holds());
  state_.nodes[NodeId{2}].paused = true;
  ASSERT_TRUE(RunUntil([this] { return !stop_.holds(); }));
  EXPECT_TRUE(Published());
  EXPECT_THAT(asked_, ElementsAre(true, false));
}

TEST_F(ProctableStopTest, ARoundThatIsOverHasNoTable) {
  stop_.Started();
  state_.round = {1, 2};
  ASSERT_TRUE(RunUntil([this] { return !stop_.holds(); }));
  EXPECT_FALSE(Published());
  EXPECT_THAT(asked_, ElementsAre(true, false));
}

}  // namespace
}  // namespace muster
