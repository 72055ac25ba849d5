#include "launcher/jobs/job_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

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
  size_t Bytes() const {
    size_t out = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      out += entry.file_size();
    }
    return out;
  }

  std::string folder_;
};

TEST_F(JobLog, LastLines) {
  JobLogWriter writer(folder_, 1 << 20);
  ASSERT_TRUE(writer.Open().ok());
  EXPECT_EQ(LastLines(3), "");
  writer.Append("a\nb\n");
  writer.Append("c\n");
  EXPECT_EQ(LastLines(0), "");
  EXPECT_EQ(LastLines(1), "c\n");
  EXPECT_EQ(LastLines(2), "b\nc\n");
  EXPECT_EQ(LastLines(3), "a\nb\nc\n");
  EXPECT_EQ(LastLines(99), "a\nb\nc\n");
  writer.Append("half");
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
    writer.Append(line);
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
  writer.Append(all);
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
    writer.Append(line);
    seen += Rest(reader);
  }
  EXPECT_EQ(seen, all);
  EXPECT_EQ(reader.TakeSkipped(), 0u);
  reader.ToEnd();
  EXPECT_EQ(Rest(reader), "");
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
    writer.Append(std::string(8000, 'x') + "\n");  // more than a piece holds
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, signal_before);
  writer.Append("at last\n");
  EXPECT_EQ(LastLines(1), "at last\n");
  EXPECT_TRUE(absl::StartsWith(LastLines(2), "muster: 40005 bytes of the output are missing here"));
}

TEST_F(JobLog, AnEndlessLineIsBoundedToo) {
  JobLogWriter writer(folder_, 64 << 10);
  ASSERT_TRUE(writer.Open().ok());
  const std::string block(64 << 10, 'x');
  for (int i = 0; i < 200; ++i) {
    writer.Append(block);
  }
  EXPECT_LE(Bytes(), 3u << 20);
}

}  // namespace
}  // namespace muster
