#include "agent/io/run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace muster {
namespace {

using ::testing::StartsWith;

class RunDirTest : public testing::Test {
 protected:
  RunDirTest() {
    std::string name = testing::TempDir() + "/run-dir-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    place_ = name;
  }
  ~RunDirTest() override { std::filesystem::remove_all(place_); }

  std::unique_ptr<RunDir> Made() const {
    auto dir = std::make_unique<RunDir>(std::vector<std::string>{place_});
    EXPECT_TRUE(dir->Make());
    return dir;
  }
  static void Put(const std::string& path) { std::ofstream(path) << "x"; }

  std::string place_;
};

TEST_F(RunDirTest, IsMadeOnceAndRemovedWithAllInIt) {
  const auto dir = Made();
  const std::string path = dir->path();
  EXPECT_THAT(path, StartsWith(place_ + "/muster-"));
  EXPECT_TRUE(dir->Make());
  EXPECT_EQ(dir->path(), path);
  Put(path + "/error-1-0.json");
  dir->Remove();
  EXPECT_TRUE(std::filesystem::is_empty(place_));
  EXPECT_EQ(dir->path(), "");
  ASSERT_TRUE(dir->Make());  // for the next shepherd
  EXPECT_TRUE(std::filesystem::is_directory(dir->path()));
  dir->Remove();
}

TEST_F(RunDirTest, TheNextPlaceIsTakenWhereOneTakesNothing) {
  RunDir dir({place_ + "/none", place_});
  EXPECT_TRUE(dir.Make());
  EXPECT_THAT(dir.path(), StartsWith(place_ + "/muster-"));
  RunDir nowhere({place_ + "/none"});
  EXPECT_FALSE(nowhere.Make());
  EXPECT_EQ(nowhere.path(), "");
  nowhere.Remove();
}

TEST_F(RunDirTest, WhatAKilledAgentLeftIsRemovedByTheNext_D1) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    RunDir dir({place_});
    if (dir.Make()) {
      Put(dir.path() + "/error-1-0.json");
    }
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_FALSE(std::filesystem::is_empty(place_));
  const auto next = Made();
  next->Remove();
  EXPECT_TRUE(std::filesystem::is_empty(place_));
}

TEST_F(RunDirTest, WhatAnAgentHoldsStays_D1) {
  const auto first = Made();
  const auto second = Made();
  Put(first->path() + "/file");
  const auto third = Made();
  EXPECT_TRUE(std::filesystem::exists(first->path() + "/file"));
  EXPECT_TRUE(std::filesystem::exists(second->path()));
  EXPECT_NE(third->path(), second->path());
}

TEST_F(RunDirTest, WhatIsNoAgentsStays_D2) {
  const std::string users = place_ + "/muster-backup";
  std::filesystem::create_directory(users);
  Put(users + "/data");
  const std::string other = place_ + "/else-abc123";
  std::filesystem::create_directory(other);
  Put(other + "/agent.lock");
  const std::string target = place_ + "/target";
  std::filesystem::create_directory(target);
  Put(target + "/agent.lock");
  std::filesystem::create_directory_symlink(target, place_ + "/muster-link12");
  const std::string linked = place_ + "/muster-abc123";
  std::filesystem::create_directory(linked);
  std::filesystem::create_symlink(users + "/data", linked + "/agent.lock");
  Put(place_ + "/muster-file12");
  const auto dir = Made();
  for (const std::string& kept : {users + "/data", other + "/agent.lock", target + "/agent.lock",
                                  linked, place_ + "/muster-file12"}) {
    EXPECT_TRUE(std::filesystem::exists(kept)) << kept;
  }
}

}  // namespace
}  // namespace muster
