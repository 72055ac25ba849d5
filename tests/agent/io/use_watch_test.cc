#include "agent/io/use_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

class UseWatchTest : public LoopTest {
 protected:
  UseWatch watch_{&loop_,
                  4,
                  {[] { return getpid(); },
                   [] {
                     return StepCount{6, absl::Seconds(2)};
                   },
                   [] { return uint64_t{7}; }},
                  [this](const NodeUse& use) { told_.push_back(use); }};
  std::vector<NodeUse> told_;
};

TEST_F(UseWatchTest, TellsWhenTheLastWorkerHasEnded) {
  watch_.Begin(2);
  watch_.WorkerStarted(LocalRank{0}, 1'000'001);
  watch_.WorkerStarted(LocalRank{1}, 1'000'002);
  watch_.WorkerEnded(1'000'001, {5'000, 3'000, 1'000});
  EXPECT_TRUE(told_.empty());
  watch_.WorkerEnded(1'000'002, {6'000, 4'000, 0});
  ASSERT_EQ(told_.size(), 1u);
  const NodeUse& use = told_[0];
  EXPECT_EQ(use.workers, 2u);
  EXPECT_EQ(use.cpus, 4u);
  EXPECT_EQ(use.cpu_time, absl::Nanoseconds(11'000));
  EXPECT_EQ(use.ran, absl::Nanoseconds(7'000));
  EXPECT_EQ(use.waited, absl::Nanoseconds(1'000));
  EXPECT_EQ(use.steps, 6u);
  EXPECT_EQ(use.steps_took, absl::Seconds(2));
  EXPECT_GT(use.lasted, absl::ZeroDuration());
}

TEST_F(UseWatchTest, AddsUpTheRounds) {
  for (const uint32_t workers : {2u, 3u}) {
    watch_.Begin(workers);
    watch_.WorkerStarted(LocalRank{0}, 1'000'001);
    watch_.WorkerEnded(1'000'001, {5'000, 3'000, 1'000});
    watch_.End();
  }
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_[1].workers, 3u);
  EXPECT_EQ(told_[1].ran, absl::Nanoseconds(6'000));
  EXPECT_GE(told_[1].lasted, told_[0].lasted);
}

// By itself, when the round has lasted for a while.
TEST_F(UseWatchTest, LooksAtWhatLives) {
  watch_.Begin(1);
  watch_.WorkerStarted(LocalRank{0}, 1'000'001);
  ASSERT_TRUE(RunUntil([this] { return !told_.empty(); }));
  EXPECT_EQ(told_[0].ran, absl::ZeroDuration());  // nothing is below us
}

class PressureFileTest : public ::testing::Test {
 protected:
  PressureFileTest() {
    std::string folder = "/tmp/pressure-XXXXXX";
    root_ = mkdtemp(folder.data());
  }
  ~PressureFileTest() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root_;
};

TEST_F(PressureFileTest, OfOurCgroupWhereThatHasOne) {
  Write("/proc/self/cgroup", "0::/job\n");
  Write("/sys/fs/cgroup/job/cpu.pressure", "some total=1\n");
  EXPECT_EQ(PressureFile(root_), absl::StrCat(root_, "/sys/fs/cgroup/job/cpu.pressure"));
}

TEST_F(PressureFileTest, ElseOfTheMachine) {
  EXPECT_EQ(PressureFile(root_), absl::StrCat(root_, "/proc/pressure/cpu"));
  Write("/proc/self/cgroup", "5:cpu:/job\n0::/\n");
  EXPECT_EQ(PressureFile(root_), absl::StrCat(root_, "/proc/pressure/cpu"));
}

}  // namespace
}  // namespace muster
