#include "agent/io/shipped_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class ShippedFolderTest : public ::testing::Test {
 protected:
  ShippedFolderTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/muster-folder-XXXXXX");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  ~ShippedFolderTest() override { std::filesystem::remove_all(root_); }

  absl::StatusOr<ShippedFolder> Unpack(const std::string& bytes) {
    absl::StatusOr<UniqueFd> archive = MakeArchiveFile(root_);
    EXPECT_TRUE(archive.ok()) << archive.status();
    EXPECT_EQ(write(archive->get(), bytes.data(), bytes.size()),
              static_cast<ssize_t>(bytes.size()));
    return ShippedFolder::Unpack(archive->get(), root_, [this] { ++worked_; });
  }

  static std::string File(const std::string& path, const std::string& text, uint32_t mode = 0644) {
    return ShipHead({ShipKind::kFile, path, mode, 1'500'000'000'000'000'001, text.size(), ""}) +
           text;
  }
  static std::string Folder(const std::string& path) {
    return ShipHead({ShipKind::kFolder, path, 0755, 0, 0, ""});
  }
  static std::string End() { return ShipHead(ShipEntry{}); }

  std::string Sample() const {
    return Folder("p") + File("p/run", "#!", 0755) + File("p/empty", "") +
           ShipHead({ShipKind::kLink, "p/l", 0, 0, 0, "run"}) + End();
  }
  bool Empty() const { return std::filesystem::is_empty(root_); }

  std::string root_;
  int worked_ = 0;
};

TEST_F(ShippedFolderTest, UnpacksForThisUserAlone) {
  const absl::StatusOr<ShippedFolder> folder = Unpack(Sample());
  ASSERT_TRUE(folder.ok()) << folder.status();
  struct stat info {};
  ASSERT_EQ(stat(folder->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
  ASSERT_EQ(stat((folder->path() + "/p/run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0755u);
  EXPECT_EQ(info.st_mtim.tv_sec, 1'500'000'000);
  EXPECT_EQ(std::filesystem::read_symlink(folder->path() + "/p/l"), "run");
  EXPECT_GE(worked_, 4);
}

TEST_F(ShippedFolderTest, TakesFilesOfAnyTime) {
  for (const timespec& when : {timespec{-2, 500'000'000}, timespec{int64_t{1} << 34, 0},
                               timespec{-(int64_t{1} << 60), 0}, timespec{0, 999'999'999}}) {
    const int64_t ns = ShipTime(when);
    EXPECT_EQ(ShipTime(TimeOfShip(ns)), ns);
    const absl::StatusOr<ShippedFolder> folder =
        Unpack(ShipHead({ShipKind::kFile, "old", 0644, ns, 1, ""}) + "x" + End());
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_TRUE(std::filesystem::exists(folder->path() + "/old"));
  }
  EXPECT_LT(TimeOfShip(std::numeric_limits<int64_t>::min()).tv_sec, 0);
  EXPECT_EQ(TimeOfShip(ShipTime({-2, 500'000'000})).tv_sec, -2);
  EXPECT_EQ(TimeOfShip(ShipTime({-2, 500'000'000})).tv_nsec, 500'000'000);
}

TEST_F(ShippedFolderTest, F2WhatWasShippedGoesWhatIsNewStays) {
  const absl::StatusOr<ShippedFolder> folder = Unpack(Sample());
  ASSERT_TRUE(folder.ok());
  EXPECT_FALSE(folder->Remove(BootNow() - absl::Seconds(1)));
  EXPECT_TRUE(std::filesystem::exists(folder->path() + "/p/run")) << "there was no time";
  EXPECT_FALSE(folder->Remove());
  EXPECT_TRUE(Empty());
  EXPECT_FALSE(folder->Remove());

  const absl::StatusOr<ShippedFolder> used = Unpack(Sample());
  ASSERT_TRUE(used.ok());
  std::filesystem::create_directory(used->path() + "/p/__pycache__");
  std::ofstream(used->path() + "/p/__pycache__/x.pyc") << "x";
  std::ofstream(used->path() + "/p/model") << "weights";
  std::ofstream(used->path() + "/p/empty") << "no longer";
  EXPECT_TRUE(used->Remove());
  EXPECT_TRUE(std::filesystem::exists(used->path() + "/p/model"));
  EXPECT_TRUE(std::filesystem::exists(used->path() + "/p/empty"));
  EXPECT_FALSE(std::filesystem::exists(used->path() + "/p/run"));
  EXPECT_FALSE(std::filesystem::exists(used->path() + "/p/__pycache__"));
}

TEST_F(ShippedFolderTest, F1NothingOutsideTheFolder) {
  const std::string bad[] = {
      File("../x", "1") + End(),
      File("/tmp/x", "1") + End(),
      ShipHead({ShipKind::kLink, "l", 0, 0, 0, "/tmp"}) + File("l/x", "1") + End(),
      File("no-folder/x", "1") + End(),
      File("x", "1") + File("x", "2") + End(),  // would go through what is there
      File("x", "123").substr(0, 45),
      ""};
  for (const std::string& bytes : bad) {
    EXPECT_FALSE(Unpack(bytes).ok());
    EXPECT_TRUE(Empty());
  }
}

TEST_F(ShippedFolderTest, NoRoom) {
  const absl::StatusOr<UniqueFd> none = MakeArchiveFile("/proc/none");
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("/proc/none: No such file"));
}

TEST(ShipRoot, TheUsersTmpdirThenOurs) {
  WorkPlan plan;
  unsetenv("TMPDIR");
  EXPECT_EQ(ShipRoot(plan), "/tmp");
  setenv("TMPDIR", "/own", 1);
  EXPECT_EQ(ShipRoot(plan), "/own");
  plan.env_set = {"A=1", "TMPDIR=/users"};
  EXPECT_EQ(ShipRoot(plan), "/users");
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace muster
