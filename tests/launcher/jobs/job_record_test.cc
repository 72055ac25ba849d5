#include "launcher/jobs/job_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "launcher/jobs/job_id.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobRecord Sample() {
  JobRecord out;
  out.id = "job-0a1b2c3d";
  out.name = "night";
  out.host = "node0";
  out.command = {"train.py", "--lr", "0.1", "a \"b\"\n"};
  out.hosts = {"node0", "node1"};
  out.folder = "/data";
  out.keeper = {4711, 123456789012, "boot", "pid:[1]"};
  out.state = JobState::kEnded;
  out.world_size = 32;
  out.nodes = 2;
  out.started_at = absl::UnixEpoch() + absl::Seconds(1000);
  out.ended_at = absl::UnixEpoch() + absl::Seconds(2000);
  out.exit_code = 3;
  out.grace = absl::Seconds(30);
  out.within = "Slurm job 5";
  return out;
}

TEST(JobRecord, ReadsWhatItWrote) {
  const JobRecord sample = Sample();
  const auto read = ParseRecord(RecordJson(sample));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(RecordJson(*read), RecordJson(sample));
  EXPECT_EQ(read->command, sample.command);
  EXPECT_EQ(read->keeper, sample.keeper);
  EXPECT_EQ(read->state, JobState::kEnded);
  EXPECT_EQ(read->ended_at, sample.ended_at);
  EXPECT_EQ(read->grace, sample.grace);
  EXPECT_EQ(read->within, sample.within);
}

TEST(JobRecord, OfAnOlderLaunchKnowsOfNoScheduler) {
  std::string json = RecordJson(Sample());
  const std::string line = "\"within\": \"Slurm job 5\",";
  ASSERT_NE(json.find(line), std::string::npos);
  json.erase(json.find(line), line.size());
  const auto read = ParseRecord(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->within, "");
}

TEST(JobRecord, ALongCommandIsCutAndTheRecordCanBeRead) {
  const std::vector<std::string> shorter = {"p", std::string(kCommandBytesMax - 3, 'x')};
  EXPECT_EQ(CutCommand(shorter), shorter);
  EXPECT_THAT(CutCommand({"p", std::string(kCommandBytesMax, 'x'), "y"}),
              ElementsAre("p", std::string(kCommandBytesMax - 2, 'x') + "..."));
  JobRecord sample = Sample();
  sample.command = CutCommand(std::vector<std::string>(1u << 20, "\x01"));
  EXPECT_EQ(sample.command.size(), kCommandBytesMax / 2 + 1);
  EXPECT_EQ(sample.command.back(), "...");
  sample.command = CutCommand({std::string(3u << 20, '\x01')});
  const std::string json = RecordJson(sample);
  EXPECT_LT(json.size(), kRecordBytesMax);
  EXPECT_EQ(ParseRecord(json)->command, sample.command);
}

TEST(JobRecord, WhatHasNotEndedHasNoExitCode) {
  JobRecord sample = Sample();
  sample.exit_code = 0;
  EXPECT_THAT(RecordJson(sample), HasSubstr("\"exit_code\": 0"));
  for (const JobState state : {JobState::kRunning, JobState::kLost}) {
    sample.state = state;
    EXPECT_THAT(RecordJson(sample), HasSubstr("\"exit_code\": null"));
    EXPECT_EQ(ParseRecord(RecordJson(sample))->exit_code, 0);
  }
}

TEST(StartIsOverdue, GoesByTheLastChangeAndTouchesOnlyWhatMayBeAJob) {
  const absl::Time now = absl::UnixEpoch() + absl::Hours(10000);
  const absl::Time old = now - kStartAwaited - absl::Seconds(1);
  EXPECT_TRUE(StartIsOverdue("job-0a1b2c3d", old, now));
  EXPECT_FALSE(StartIsOverdue("job-0a1b2c3d", now - kStartAwaited, now));
  EXPECT_FALSE(StartIsOverdue("job-0a1b2c3d", now + absl::Hours(1), now));  // another clock's
  for (const char* name : {"job-0a1b2c3", "job-0a1b2c3d4", "job-0A1b2c3d", "my-notes", "job-"}) {
    EXPECT_FALSE(StartIsOverdue(name, old, now)) << name;
  }
}

TEST(JobId, IsOne) { EXPECT_TRUE(IsJobId(MakeJobId())); }

TEST(JobsToForget, AreThoseThatEndedLongAgoOrBeforeManyOthers) {
  const absl::Time now = absl::UnixEpoch() + absl::Hours(10000);
  JobRecord first = Sample();  // of all that began
  first.started_at = now - absl::Hours(999);
  first.ended_at = now;
  JobRecord lost = first;
  lost.state = JobState::kLost;
  lost.ended_at.reset();
  JobRecord runs = lost;
  runs.state = JobState::kRunning;
  JobRecord old = Sample();
  old.ended_at = now - kEndedJobsKept - absl::Seconds(1);
  EXPECT_THAT(JobsToForget({first, lost, runs, old}, now), ElementsAre(false, false, false, true));
  std::vector<JobRecord> many = {first, lost, runs};
  JobRecord other = Sample();
  other.ended_at = now - absl::Hours(1);
  many.resize(many.size() + kEndedJobsMax, other);
  std::vector<bool> want(many.size());
  want[3] = want[4] = true;  // `first` and `lost` have ended after them
  EXPECT_EQ(JobsToForget(many, now), want);
}

TEST(JobRecord, NonsenseIsAnErrorThatNamesTheField) {
  const std::string good = RecordJson(Sample());
  static constexpr struct {
    const char* from;
    const char* to;
    const char* says;
  } kCases[] = {
      {"muster-job-1", "muster-job-9", "'format'"},
      {"\"ended\"", "\"resting\"", "'state'"},
      {"\"ended\"", "7", "'state'"},
      {"\"pid\": 4711", "\"pid\": -1", "'pid'"},
      {"\"pid\": 4711", "\"pid\": 18446744073709551615", "'pid'"},
      {"\"pid\": 4711", "\"pid\": \"4711\"", "'pid'"},
      {"\"pid\": 4711", "\"dip\": 4711", "'pid'"},
      {"\"exit_code\": 3", "\"exit_code\": 300", "'exit_code'"},
      {"\"started_at\": 1000.0", "\"started_at\": 1e300", "'started_at'"},
      {"\"started_at\": 1000.0", "\"started_at\": -5", "'started_at'"},
      {"\"ended_at\": 2000.0", "\"ended_at\": []", "'ended_at'"},
      {"\"node0\",\n    \"node1\"", "1, 2", "'hosts'"},
      {"\"night\"", "null", "'name'"},
  };
  for (const auto& one : kCases) {
    const std::string text = absl::StrReplaceAll(good, {{one.from, one.to}});
    ASSERT_NE(text, good) << one.from;
    const auto read = ParseRecord(text);
    ASSERT_FALSE(read.ok()) << one.to;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(one.says)) << one.to;
  }
}

TEST(JobRecord, AnyBeginningOfAFileIsRefused) {
  const std::string good = RecordJson(Sample());
  for (size_t size = 0; size + 2 < good.size(); ++size) {
    EXPECT_FALSE(ParseRecord(good.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ParseRecord("[]").ok());
  EXPECT_FALSE(ParseRecord(std::string(100000, '[')).ok());
  EXPECT_FALSE(ParseRecord(std::string("\0\xff", 2)).ok());
}

TEST(JobRecord, BytesThatAreNotUtf8DoNotBreakTheFile) {
  JobRecord record = Sample();
  record.command = {"\xff\xfe"};
  EXPECT_TRUE(ParseRecord(RecordJson(record)).ok());
}

}  // namespace
}  // namespace muster
