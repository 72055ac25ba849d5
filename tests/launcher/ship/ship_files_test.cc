#include "launcher/ship/ship_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "proto/ship/sha256.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ShipFilesTest : public ::testing::Test {
 protected:
  ShipFilesTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/muster-ship-test-XXXXXX");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::filesystem::current_path(folder_);
  }
  ~ShipFilesTest() override {
    std::filesystem::current_path("/");
    std::filesystem::remove_all(folder_);
  }

  static void Write(const std::string& path, const std::string& text) {
    if (const auto parent = std::filesystem::path(path).parent_path(); !parent.empty()) {
      std::filesystem::create_directories(parent);
    }
    std::ofstream(path) << text;
  }

  static std::vector<std::string> Places(const std::vector<std::string>& shipped) {
    const absl::StatusOr<ShipScan> scan = ScanShip(shipped);
    EXPECT_TRUE(scan.ok()) << scan.status();
    std::vector<std::string> out;
    for (const ShipSource& source : scan.ok() ? scan->sources : std::vector<ShipSource>{}) {
      out.push_back(source.entry.path);
    }
    return out;
  }

  static std::string Error(const std::vector<std::string>& shipped, ShipBounds bounds = {}) {
    return std::string(ScanShip(shipped, bounds).status().message());
  }

  std::string folder_;
};

TEST_F(ShipFilesTest, AFolderComesBeforeWhatIsInIt) {
  Write("train.py", "print()");
  Write("data/b/x", "1");
  Write("data/a", "2");
  EXPECT_THAT(Places({"train.py", "data/"}),
              ElementsAre("train.py", "data", "data/a", "data/b", "data/b/x"));
  EXPECT_THAT(Places({"./data/b/x"}), ElementsAre("data", "data/b", "data/b/x"));
  EXPECT_THAT(Places({folder_ + "/data/b"}), ElementsAre("b", "b/x"));
  EXPECT_THAT(Places({"."}), ElementsAre("data", "data/a", "data/b", "data/b/x", "train.py"));
}

TEST_F(ShipFilesTest, OneFileNamedTwiceGoesOnce) {
  Write("data/a", "2");
  EXPECT_THAT(Places({"data/a", "data", "."}), ElementsAre("data", "data/a"));
}

TEST_F(ShipFilesTest, VersionControlStaysHere) {
  Write("p/.git/objects/x", "1");
  Write("p/__pycache__/y.pyc", "1");
  Write("p/y.py", "1");
  EXPECT_THAT(Places({"p"}), ElementsAre("p", "p/y.py"));
}

TEST_F(ShipFilesTest, LinksStayLinksAndWhatIsNamedIsFollowed) {
  Write("p/x", "1");
  symlink("x", "p/l");
  symlink("p/x", "top");
  const absl::StatusOr<ShipScan> scan = ScanShip({"p", "top"});
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->sources[1].entry.target, "x");
  EXPECT_EQ(scan->sources[3].entry.kind, ShipKind::kFile);
  EXPECT_EQ(scan->sources[3].entry.path, "top");
  EXPECT_EQ(scan->bytes, 2u);
}

TEST_F(ShipFilesTest, WhatCannotBeShippedIsNamed) {
  EXPECT_THAT(Error({"no.py"}), HasSubstr("--ship: no.py: No such file or directory: is it"));
  Write("p/x", "1");
  symlink("/etc/passwd", "p/out");
  EXPECT_THAT(Error({"p"}), HasSubstr("p/out is a link to /etc/passwd, which leads out"));
  std::filesystem::remove("p/out");
  ASSERT_EQ(mkfifo("p/fifo", 0600), 0);
  EXPECT_THAT(Error({"p"}), HasSubstr("p/fifo is neither a file nor a folder nor a link"));
  std::filesystem::remove("p/fifo");
  Write("q/x", "other");
  EXPECT_THAT(Error({folder_ + "/p/x", folder_ + "/q/x"}), HasSubstr("would both be 'x' on the"));
}

TEST_F(ShipFilesTest, Limits) {
  Write("p/x", "123");
  Write("p/y", "45");
  EXPECT_TRUE(ScanShip({"p"}, {5, 3}).ok());
  EXPECT_THAT(Error({"p"}, {4, 3}), HasSubstr("want at most 4 bytes in all"));
  EXPECT_THAT(Error({"p"}, {5, 2}), HasSubstr("want at most 2 files and folders in all"));
}

TEST_F(ShipFilesTest, TheArchiveHoldsThemAndItsDigestNamesIt) {
  Write("p/x", "hello");
  const absl::StatusOr<ShipScan> scan = ScanShip({"p"});
  ASSERT_TRUE(scan.ok());
  const absl::StatusOr<ShipArchive> archive = PackShip(*scan);
  ASSERT_TRUE(archive.ok()) << archive.status();
  const std::string want =
      absl::StrCat(ShipHead(scan->sources[0].entry), ShipHead(scan->sources[1].entry), "hello",
                   ShipHead(ShipEntry{}));
  std::string got(want.size() + 1, '\0');
  EXPECT_EQ(pread(archive->file.get(), got.data(), got.size(), 0),
            static_cast<ssize_t>(want.size()));
  EXPECT_EQ(got.substr(0, want.size()), want);
  Sha256 digest;
  digest.Add(want);
  EXPECT_EQ(archive->terms, (ShipTerms{digest.Digest(), want.size(), 2}));
}

TEST_F(ShipFilesTest, AFileThatChangesMeanwhileIsAnError) {
  Write("x", "hello");
  const absl::StatusOr<ShipScan> scan = ScanShip({"x"});
  ASSERT_TRUE(scan.ok());
  Write("x", "hello and more");
  EXPECT_THAT(std::string(PackShip(*scan).status().message()),
              HasSubstr("--ship: x changed while it was read"));
  std::filesystem::remove("x");
  EXPECT_THAT(std::string(PackShip(*scan).status().message()), HasSubstr("--ship: x: No such"));
}

TEST_F(ShipFilesTest, NoRoomToPack) {
  Write("x", "hello");
  setenv("TMPDIR", "/proc/none", 1);
  const std::string message(PackShip(*ScanShip({"x"})).status().message());
  unsetenv("TMPDIR");
  EXPECT_THAT(message, HasSubstr("no room to pack it in /proc/none"));
  EXPECT_THAT(message, HasSubstr("set TMPDIR"));
}

}  // namespace
}  // namespace muster
