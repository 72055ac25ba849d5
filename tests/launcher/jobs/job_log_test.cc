#include "launcher/jobs/job_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

class JobLog : public testing::Test {
 protected:
  JobLog() {
    folder_ = absl::StrCat(testing::TempDir(), "/job_log_XXXXXX");
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~JobLog() override { std::filesystem::remove_all(folder_); }

  static std::string Rest(JobLogReader& reader) {
    std::string out;
    for (std::string text = reader.Next(); !text.empty(); text = reader.Next()) {
      out += text;
    }
    return out;
  }
  std::string LastLines(uint64_t lines) const {
    JobLogReader reader(folder_);
    reader.ToLastLines(lines);
    return Rest(reader);
  }
  // What is shown with --since; a question mark in front where its time is not known.
  std::string Since(absl::Time since) const {
    JobLogReader reader(folder_);
    const bool sure = reader.SkipBefore(since);
    return absl::StrCat(sure ? "" : "?", Rest(reader));
  }
  size_t Bytes(absl::string_view files = "output.") const {
    size_t out = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      out += absl::StartsWith(entry.path().filename().native(), files) ? entry.file_size() : 0;
    }
    return out;
  }

  std::string folder_;
  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(400000);
};

TEST_F(JobLog, LastLines) {
  JobLogWriter writer(folder_, 1 << 20);
  ASSERT_TRUE(writer.Open().ok());
  EXPECT_EQ(LastLines(3), "");
  writer.Append("a\nb\n", now_);
  writer.Append("c\n", now_);
  EXPECT_EQ(LastLines(0), "");
  EXPECT_EQ(LastLines(1), "c\n");
  EXPECT_EQ(LastLines(2), "b\nc\n");
  EXPECT_EQ(LastLines(3), "a\nb\nc\n");
  EXPECT_EQ(LastLines(99), "a\nb\nc\n");
  writer.Append("half", now_);
  EXPECT_EQ(LastLines(1), "half");
  EXPECT_EQ(LastLines(2), "c\nhalf");
}

TEST_F(JobLog, KeepsTheNewestWithinTheLimitAndSaysWhatWasDropped) {
  constexpr uint64_t kMax = 64u << 10;
  JobLogWriter writer(folder_, kMax);
  ASSERT_TRUE(writer.Open().ok());
  JobLogReader slow(folder_);
  std::string all;
  for (int i = 0; i < 20000; ++i) {
    const std::string line = absl::StrCat("line ", i, "\n");
    all += line;
    writer.Append(line, now_);
    ASSERT_LE(Bytes(), kMax);
  }
  const std::string kept = LastLines(1000000);
  EXPECT_TRUE(absl::EndsWith(all, kept));
  EXPECT_TRUE(absl::StartsWith(kept, "line "));  // a piece begins with a line
  EXPECT_GE(kept.size(), kMax / 2);
  EXPECT_EQ(Rest(slow), kept);
  EXPECT_EQ(slow.TakeSkipped(), all.size() - kept.size());
  EXPECT_EQ(slow.TakeSkipped(), 0u);
}

TEST_F(JobLog, ALargeChunkKeepsTheLimit) {
  JobLogWriter writer(folder_, 8192);
  ASSERT_TRUE(writer.Open().ok());
  std::string all;
  for (int i = 0; i < 10000; ++i) {
    absl::StrAppend(&all, "line ", i, "\n");
  }
  writer.Append(all, now_);
  EXPECT_LE(Bytes(), 8192u);
  EXPECT_EQ(LastLines(2), "line 9998\nline 9999\n");
  EXPECT_TRUE(absl::StartsWith(LastLines(10000), "line "));
}

TEST_F(JobLog, AFollowerMissesNothingAcrossPieces) {
  JobLogWriter writer(folder_, 4096);
  ASSERT_TRUE(writer.Open().ok());
  JobLogReader reader(folder_);
  std::string all;
  std::string seen;
  for (int i = 0; i < 2000; ++i) {
    const std::string line = absl::StrCat("line ", i, "\n");
    all += line;
    writer.Append(line, now_);
    seen += Rest(reader);
  }
  EXPECT_EQ(seen, all);
  EXPECT_EQ(reader.TakeSkipped(), 0u);
  reader.ToEnd();
  EXPECT_EQ(Rest(reader), "");
}

TEST_F(JobLog, WhatWasNotShownComesOnceMore) {
  JobLogWriter writer(folder_, 4096);
  ASSERT_TRUE(writer.Open().ok());
  writer.Append("one\ntwo\n", now_);
  JobLogReader reader(folder_);
  EXPECT_EQ(reader.Next(), "one\ntwo\n");
  reader.Back(4);
  EXPECT_EQ(Rest(reader), "two\n");
}

TEST_F(JobLog, AfterAFullDiskWhatFitsAgainIsThere) {
  JobLogWriter writer(folder_, 8192);
  ASSERT_TRUE(writer.Open().ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full = {0, before.rlim_max};
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int i = 0; i < 5; ++i) {
    writer.Append(std::string(8000, 'x') + "\n", now_);  // more than a piece holds
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, signal_before);
  writer.Append("at last\n", now_);
  EXPECT_EQ(LastLines(1), "at last\n");
  EXPECT_TRUE(absl::StartsWith(LastLines(2), "muster: 40005 bytes of the output are missing here"));
}

TEST_F(JobLog, AnEndlessLineIsBoundedToo) {
  JobLogWriter writer(folder_, 64 << 10);
  ASSERT_TRUE(writer.Open().ok());
  const std::string block(64 << 10, 'x');
  for (int i = 0; i < 200; ++i) {
    writer.Append(block, now_);
  }
  EXPECT_LE(Bytes(), 3u << 20);
}

TEST_F(JobLog, SinceATime) {
  JobLogWriter writer(folder_, 1 << 20);
  ASSERT_TRUE(writer.Open().ok());
  EXPECT_EQ(Since(now_), "");
  writer.Append("a\nb\n", now_);
  writer.Append("c\nbegun, ", now_ + absl::Milliseconds(900));
  writer.Append("ended\nd\n", now_ + absl::Seconds(60));
  writer.Append("e\n", now_ + absl::Seconds(61));
  const std::string all = "a\nb\nc\nbegun, ended\nd\ne\n";
  EXPECT_EQ(Since(now_ - absl::Hours(1)), all);
  EXPECT_EQ(Since(now_ + absl::Milliseconds(950)), all);  // to the second
  EXPECT_EQ(Since(now_ + absl::Seconds(1)), "begun, ended\nd\ne\n");
  EXPECT_EQ(Since(now_ + absl::Seconds(60)), "begun, ended\nd\ne\n");
  EXPECT_EQ(Since(now_ + absl::Seconds(61)), "e\n");
  EXPECT_EQ(Since(now_ + absl::Seconds(62)), "");
}

TEST_F(JobLog, SinceNeverGoesBackBehindTheLastLines) {
  JobLogWriter writer(folder_, 1 << 20);
  ASSERT_TRUE(writer.Open().ok());
  writer.Append("a\n", now_);
  writer.Append("b\nc\n", now_ + absl::Seconds(5));
  JobLogReader reader(folder_);
  reader.ToLastLines(1);
  EXPECT_TRUE(reader.SkipBefore(now_ + absl::Seconds(2)));
  EXPECT_EQ(Rest(reader), "c\n");
}

TEST_F(JobLog, SinceAcrossPieces) {
  constexpr uint64_t kMax = 8192;
  JobLogWriter writer(folder_, kMax);
  ASSERT_TRUE(writer.Open().ok());
  for (int i = 0; i < 3000; ++i) {
    writer.Append(absl::StrCat("line ", i, "\n"), now_ + absl::Seconds(i));
    ASSERT_LE(Bytes(), kMax);
  }
  const std::string kept = LastLines(100000);
  EXPECT_EQ(Since(now_), kept);
  EXPECT_EQ(Since(now_ + absl::Seconds(3000 + 600)), "");
  EXPECT_LE(Bytes("times."), kMax / 4);
  for (const int i : {2600, 2750, 2999}) {  // marks are seconds apart by now, never wrong
    const std::string since = Since(now_ + absl::Seconds(i));
    EXPECT_TRUE(absl::EndsWith(kept, since) && absl::StrContains(since, absl::StrCat("line ", i)));
    EXPECT_FALSE(absl::StrContains(since, absl::StrCat("line ", i - 200, "\n"))) << i;
  }
  JobLogReader reader(folder_);
  EXPECT_TRUE(reader.SkipBefore(now_));
  Rest(reader);
  EXPECT_GT(reader.TakeSkipped(), 0u);  // what was dropped was printed since then, too
}

TEST_F(JobLog, PiecesThatComeAndGoMeanwhileAreNotUndated) {
  JobLogWriter writer(folder_, 4096);
  ASSERT_TRUE(writer.Open().ok());
  std::atomic<bool> over = false;
  std::thread printer([this, &writer, &over] {
    const std::string line = std::string(99, 'x') + "\n";
    for (int i = 0; !over; ++i) {
      writer.Append(line, now_ + absl::Seconds(i / 100));
    }
  });
  int unsure = 0;
  for (int i = 0; i < 2000; ++i) {
    JobLogReader reader(folder_);
    unsure += reader.SkipBefore(now_) ? 0 : 1;
  }
  over = true;
  printer.join();
  EXPECT_EQ(unsure, 0);
}

TEST_F(JobLog, WithoutRoomForTheTimesItSaysThatTheyAreNotKnown) {
  JobLogWriter writer(folder_, 8192);
  ASSERT_TRUE(writer.Open().ok());
  const std::string line = std::string(99, 'x') + "\n";
  for (int i = 0; i < 60; ++i) {  // one piece and a half
    writer.Append(line, now_ + absl::Seconds(i));
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (absl::EndsWith(entry.path().native(), "times.00000000000000000000")) {
      std::filesystem::remove(entry.path());
    }
  }
  EXPECT_EQ(Since(now_ + absl::Seconds(50)).size(), 10 * line.size());  // of the other piece
  EXPECT_EQ(Since(now_ + absl::Seconds(10)), absl::StrCat("?", LastLines(100)));
}

TEST_F(JobLog, TimesThatDoNotFitOnTheDiskGo) {
  JobLogWriter writer(folder_, 1 << 20);
  ASSERT_TRUE(writer.Open().ok());
  writer.Append("a\n", now_);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full = {Bytes("times.") + 1, before.rlim_max};  // room for "b", none for its time
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  writer.Append("b\n", now_ + absl::Seconds(10));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, signal_before);
  writer.Append("c\n", now_ + absl::Seconds(20));
  EXPECT_EQ(Since(now_ + absl::Seconds(15)), "?a\nb\nc\n");
}

}  // namespace
}  // namespace muster
