#include "launcher/start_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StartFailuresTest : public LoopTest {
 protected:
  StartFailures Make(size_t under_way, absl::Duration together = absl::InfiniteDuration()) {
    return {&loop_, under_way,
            [this](size_t index, const std::string& reason) {
              told_.push_back(absl::StrCat(index, ": ", reason));
            },
            together};
  }
  std::vector<std::string> told_;
};

TEST_F(StartFailuresTest, T2AtOnceWhenNothingIsUnderWay) {
  StartFailures failures = Make(3);
  failures.Failed(2, "down");
  failures.Succeeded();
  RunReady();
  EXPECT_THAT(told_, IsEmpty());
  failures.Failed(0, "unknown");
  RunReady();
  EXPECT_THAT(told_, ElementsAre("2: down", "0: unknown"));
}

TEST_F(StartFailuresTest, T2TheLastStartThatSucceedsIsNotWaitedForAnyLonger) {
  StartFailures failures = Make(2);
  failures.Failed(1, "down");
  failures.Succeeded();
  RunReady();
  EXPECT_THAT(told_, ElementsAre("1: down"));
}

TEST_F(StartFailuresTest, T1OnceWhileOthersAreUnderWay) {
  StartFailures failures = Make(9, absl::Milliseconds(1));
  failures.Failed(1, "down");
  ASSERT_TRUE(RunUntil([this] { return !told_.empty(); }));
  failures.Failed(4, "later");
  ASSERT_TRUE(RunUntil([this] { return told_.size() > 1; }));
  EXPECT_THAT(told_, ElementsAre("1: down", "4: later"));
}

}  // namespace
}  // namespace muster
