#include "launcher/rendezvous_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

RendezvousPoint Point(int number) {
  RendezvousPoint point;
  point.job_id = "default";
  point.build = "b";
  point.host = absl::StrCat("node", number);
  point.address = "10.0.0.1";
  point.port = 4000;
  point.nonce = absl::StrCat("abcdef012345678", number, "ff");
  point.secret = std::string(64, 's');
  return point;
}

class RendezvousFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "/muster-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return folder_ + "/job1"; }
  size_t FilesLeft() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  // How many of `threads` that run at the same time say true.
  template <typename Try>
  static int Winners(int threads, Try attempt) {
    std::atomic<bool> go = false;
    std::atomic<int> won = 0;
    std::vector<std::thread> all;
    all.reserve(static_cast<size_t>(threads));
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&, i] {
        while (!go) {
        }
        won += attempt(i) ? 1 : 0;
      });
    }
    go = true;
    for (std::thread& one : all) {
      one.join();
    }
    return won;
  }

  std::string folder_;
};

TEST(RendezvousText, ComesBack) {
  const RendezvousPoint point = Point(1);
  const absl::StatusOr<RendezvousPoint> parsed = ParseRendezvousText(RendezvousText(point));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, point);
}

TEST(RendezvousText, AnythingElseIsRefusedWithTheReason) {
  const std::string good = RendezvousText(Point(1));
  const auto with = [&good](const std::string& what, const std::string& other) {
    std::string text = good;
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), other);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {good.substr(0, good.size() / 2), "no JSON object"},
      {with("muster-rendezvous-1", "muster-rendezvous-9"), "want format muster-rendezvous-1"},
      {with("4000", "0"), "want a port"},
      {with("4000", "70000"), "want a port"},
      {with("4000", "-1"), "want a port"},
      {with("4000", "\"4000\""), "want a port"},
      {with("\"10.0.0.1\"", "17"), "want a text as 'address'"},
      {with("10.0.0.1", ""), "want an address"},
      {with("abcdef", "/../.."), "a nonce of hex digits"},
      {with("nonce", "once"), "want a text as 'nonce'"}};
  for (const auto& [text, why] : cases) {
    EXPECT_THAT(std::string(ParseRendezvousText(text).status().message()), HasSubstr(why)) << text;
  }
}

TEST_F(RendezvousFileTest, OfAllThatPublishOneWins) {  // F1, F2
  for (int turn = 0; turn < 50; ++turn) {
    const RendezvousFile file(absl::StrCat(Path(), turn));
    std::atomic<int> winner = -1;
    EXPECT_EQ(Winners(8,
                      [&](int i) {
                        const bool won = file.Publish(Point(i)).value();
                        EXPECT_TRUE(file.Read().value().has_value());
                        if (won) {
                          winner = i;
                        }
                        return won;
                      }),
              1);
    EXPECT_EQ(file.Read().value(), Point(winner));
    file.Remove(Point(winner));
    EXPECT_EQ(FilesLeft(), 0u);
  }
}

TEST_F(RendezvousFileTest, OfAllThatReplaceTheSameOneWins) {  // F3
  const RendezvousFile file(Path());
  ASSERT_TRUE(file.Publish(Point(9)).value());
  RendezvousPoint dead = Point(9);
  for (int turn = 0; turn < 50; ++turn) {
    std::atomic<int> winner = -1;
    const auto next = [turn](int i) {
      RendezvousPoint point = Point(i);
      point.nonce = absl::StrCat("0", turn, "0", i);
      return point;
    };
    EXPECT_EQ(Winners(8,
                      [&](int i) {
                        const bool won = file.Replace(dead, next(i)).value();
                        if (won) {
                          winner = i;
                        }
                        return won;
                      }),
              1);
    EXPECT_FALSE(file.Replace(dead, Point(1)).value());  // long gone
    dead = next(winner);
    EXPECT_EQ(file.Read().value(), dead);
    EXPECT_EQ(FilesLeft(), 1u);
  }
}

TEST_F(RendezvousFileTest, TheFileOfASuccessorStays) {  // F4
  const RendezvousFile file(Path());
  ASSERT_TRUE(file.Publish(Point(1)).value());
  ASSERT_TRUE(file.Replace(Point(1), Point(2)).value());
  file.Remove(Point(1));
  EXPECT_EQ(file.Read().value(), Point(2));
  file.Remove(Point(2));
  EXPECT_EQ(file.Read().value(), std::nullopt);
  EXPECT_FALSE(file.Replace(Point(2), Point(3)).value());  // nothing is there to be replaced
  EXPECT_EQ(FilesLeft(), 0u);
}

TEST_F(RendezvousFileTest, OnlyItsOwnerMayReadIt) {
  const RendezvousFile file(Path());
  ASSERT_TRUE(file.Publish(Point(1)).value());
  struct stat info {};
  ASSERT_EQ(stat(Path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(chmod(Path().c_str(), 0644), 0);
  EXPECT_THAT(std::string(file.Read().status().message()), HasSubstr("chmod 600"));
}

TEST_F(RendezvousFileTest, SomebodysFileIsNotTouched) {
  std::ofstream(Path()) << "my thesis\n";
  ASSERT_EQ(chmod(Path().c_str(), 0600), 0);
  const RendezvousFile file(Path());
  const std::string why(file.Read().status().message());
  EXPECT_THAT(why, HasSubstr("not a rendezvous file of muster"));
  EXPECT_THAT(why, HasSubstr("give a path where no file is"));
  EXPECT_FALSE(file.Publish(Point(1)).value());
  EXPECT_EQ(std::filesystem::file_size(Path()), 10u);
  std::ofstream(Path()) << std::string(kRendezvousFileBytesMax + 1, 'x');
  EXPECT_THAT(std::string(file.Read().status().message()), HasSubstr("more than 4096 bytes"));
}

TEST_F(RendezvousFileTest, AFolderThatIsNotThere) {
  const RendezvousFile file(folder_ + "/none/job1");
  EXPECT_EQ(file.Read().value(), std::nullopt);
  EXPECT_THAT(std::string(file.Publish(Point(1)).status().message()), HasSubstr("none/job1"));
}

}  // namespace
}  // namespace muster
