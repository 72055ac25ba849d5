#include "launcher/site_trust.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/log.h"
#include "proto/base/mutex.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Print(char c) { return absl::StrCat("SHA256:", std::string(43, c)); }

class SiteTrustTest : public testing::Test {
 protected:
  SiteTrustTest() {
    char name[] = "/tmp/muster-trust-test-XXXXXX";
    folder_ = mkdtemp(name);
    file_ = folder_ + "/muster/known_masters";
    setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
    SetLogSink([this](LogLevel, absl::string_view text) {
      MutexLock lock(mutex_);
      said_.emplace_back(text);
    });
  }
  ~SiteTrustTest() override {
    SetLogSink(nullptr);
    unsetenv("XDG_CONFIG_HOME");
    std::filesystem::remove_all(folder_);
  }
  void Write(const std::string& text, mode_t mode = 0600) {
    std::filesystem::create_directories(folder_ + "/muster");
    std::ofstream(file_) << text;
    chmod(file_.c_str(), mode);
  }
  std::string Text() const {
    std::ostringstream out;
    out << std::ifstream(file_).rdbuf();
    return out.str();
  }
  std::vector<std::string> Said() {
    MutexLock lock(mutex_);
    return said_;
  }

  std::string folder_;
  std::string file_;
  Mutex mutex_;
  std::vector<std::string> said_ MUSTER_GUARDED_BY(mutex_);
};

TEST_F(SiteTrustTest, WhoIsMetForTheFirstTimeIsRememberedAndToldOnce) {
  {
    SiteTrust trust("", "--rdzv-fingerprint");
    const SiteKeys keys = trust.keys();
    EXPECT_EQ(keys.expected("a:1"), "");
    keys.on_first_proof("a:1", Print('A'));
    EXPECT_EQ(keys.expected("a:1"), Print('A'));  // at once
  }
  EXPECT_THAT(Said(), ElementsAre(absl::StrCat("first time at a:1: its fingerprint is ", Print('A'),
                                               ", remembered in ", file_)));
  EXPECT_EQ(Text(), absl::StrCat("a:1 ", Print('A'), "\n"));
  struct stat info {};
  ASSERT_EQ(stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  SiteTrust again("", "");
  EXPECT_EQ(again.keys().expected("a:1"), Print('A'));
  EXPECT_THAT(again.keys().why_refused("a:1", Print('B')),
              AllOf(HasSubstr(file_ + " line 1 remembers " + Print('A')), HasSubstr(Print('B'))));
}

TEST_F(SiteTrustTest, WhatIsTypedCountsAndNothingIsRememberedThen) {
  Write("nonsense");
  SiteTrust trust(Print('T'), "MUSTER_RDZV_FINGERPRINT=T (environment)");
  EXPECT_EQ(trust.keys().expected("a:1"), Print('T'));
  EXPECT_THAT(trust.keys().why_refused("a:1", Print('B')),
              AllOf(HasSubstr("a:1 has the fingerprint " + Print('B')),
                    HasSubstr("MUSTER_RDZV_FINGERPRINT=T (environment) was given")));
  EXPECT_EQ(Text(), "nonsense");
}

TEST_F(SiteTrustTest, WhereTheFileCannotBeBelievedNoDaemonIs) {
  const auto refused = [this](const char* text, mode_t mode) {
    Write(text, mode);
    SiteTrust trust("", "");
    EXPECT_EQ(trust.keys().expected("a:1"), std::nullopt);
    return trust.keys().why_refused("a:1", Print('B'));
  };
  EXPECT_THAT(refused("a:1\n", 0600), HasSubstr(file_ + " line 1: want 'HOST:PORT SHA256:...'"));
  EXPECT_THAT(refused("", 0644), HasSubstr("chmod 600 " + file_));
}

TEST_F(SiteTrustTest, WithoutAHomeItIsSaidThatNothingIsRemembered) {
  setenv("XDG_CONFIG_HOME", "/proc/nowhere", 1);
  { SiteTrust("", "").keys().on_first_proof("a:1", Print('A')); }
  EXPECT_THAT(Said(),
              ElementsAre(AllOf(HasSubstr("first time at a:1: its fingerprint is " + Print('A')),
                                HasSubstr("cannot be remembered: mkdir /proc/nowhere"),
                                HasSubstr("--rdzv-fingerprint"))));
}

TEST_F(SiteTrustTest, ManyAtTheSameTimeLoseNoLine) {
  constexpr int kLaunches = 16;
  std::vector<std::thread> threads;
  threads.reserve(kLaunches);
  for (int i = 0; i < kLaunches; ++i) {
    threads.emplace_back([this, i] {
      const std::string endpoint = absl::StrCat("host", i / 2, ":1");  // each is met by two
      EXPECT_TRUE(RememberMaster(file_, endpoint, Print('A'), absl::Minutes(1)).ok());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::vector<std::string> lines = absl::StrSplit(Text(), '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), size_t{kLaunches} / 2);
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()).size(), lines.size());
}

TEST_F(SiteTrustTest, AFileThatIsALinkStaysOne) {
  Write("");
  const std::string kept = folder_ + "/kept/masters";
  std::filesystem::create_directory(folder_ + "/kept");
  std::ofstream(kept) << "# mine\n";
  chmod(kept.c_str(), 0600);
  std::filesystem::remove(file_);
  std::filesystem::create_symlink("../kept/masters", file_);
  EXPECT_TRUE(RememberMaster(file_, "a:1", Print('A'), absl::Minutes(1)).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(file_));
  EXPECT_FALSE(std::filesystem::is_symlink(kept));
  EXPECT_EQ(Text(), absl::StrCat("# mine\na:1 ", Print('A'), "\n"));
  std::filesystem::remove(kept);
  EXPECT_TRUE(RememberMaster(file_, "b:1", Print('B'), absl::Minutes(1)).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(file_)) << "one that led to nothing";
  EXPECT_EQ(Text(), absl::StrCat("b:1 ", Print('B'), "\n"));
}

TEST_F(SiteTrustTest, ALinkThatLeadsNowhereOrIsNotOursIsLeftAlone) {
  Write("");
  std::filesystem::remove(file_);
  std::filesystem::create_symlink("known_masters", file_);
  EXPECT_THAT(
      std::string(RememberMaster(file_, "a:1", Print('A'), absl::Minutes(1)).status().message()),
      HasSubstr("leads through more than 8 links"));
  if (geteuid() == 0) {  // else there is nobody else to own one
    std::filesystem::remove(file_);
    std::filesystem::create_symlink("another", file_);
    ASSERT_EQ(lchown(file_.c_str(), 12345, 12345), 0);
    EXPECT_THAT(
        std::string(RememberMaster(file_, "a:1", Print('A'), absl::Minutes(1)).status().message()),
        HasSubstr("is a link of user id 12345, we are 0: remove it"));
  }
}

TEST_F(SiteTrustTest, WhatAnotherLaunchHasLearntMeanwhileCounts) {
  Write(absl::StrCat("a:1 ", Print('A'), "\n"));
  EXPECT_EQ(*RememberMaster(file_, "a:1", Print('A'), absl::Minutes(1)), "");
  const absl::Status changed = RememberMaster(file_, "a:1", Print('B'), absl::Minutes(1)).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(changed.message()), HasSubstr("line 1 remembers " + Print('A')));
  EXPECT_EQ(Text(), absl::StrCat("a:1 ", Print('A'), "\n"));
}

TEST_F(SiteTrustTest, ALockThatIsHeldIsNotWaitedForForEver) {
  Write("");
  const UniqueFd lock(open((file_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  const absl::Status status =
      RememberMaster(file_, "a:1", Print('A'), absl::Milliseconds(30)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(".lock is held by another launch for more than 30 ms"));
  EXPECT_EQ(Text(), "");
}

}  // namespace
}  // namespace muster
