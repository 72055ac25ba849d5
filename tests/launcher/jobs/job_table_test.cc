#include "launcher/jobs/job_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

JobRecord Job(const std::string& id, const std::string& name, JobState state) {
  JobRecord out;
  out.id = id;
  out.name = name;
  out.state = state;
  out.command = {"train.py"};
  out.started_at = absl::UnixEpoch();
  return out;
}

const std::vector<JobRecord>& Jobs() {
  static const auto* jobs =
      new std::vector<JobRecord>{Job("job-12340000", "", JobState::kEnded),
                                 Job("job-12345678", "", JobState::kLost),
                                 Job("job-abc00000", "night", JobState::kEnded),
                                 Job("job-abd00000", "night", JobState::kRunning),
                                 Job("job-fff00000", "12340000", JobState::kStarting),
                                 Job("job-eee00000", "twice", JobState::kEnded),
                                 Job("job-eee00001", "twice", JobState::kEnded)};
  return *jobs;
}

TEST(FindJob, ByIdThenNameThenBeginning) {
  static constexpr struct {
    const char* word;
    size_t index;
  } kCases[] = {
      {"job-12340000", 0}, {"12345", 1},    {"job-12345", 1}, {"job-abc", 2},
      {"abd", 3},          {"12340000", 4},  // a name wins over the beginning of an id
      {"night", 3},        {"ab", 3},        // of several the one that runs
      {"job-f", 4},        {"eee00001", 6},
  };
  for (const auto& one : kCases) {
    const auto found = FindJob(Jobs(), one.word);
    ASSERT_TRUE(found.ok()) << one.word << ": " << found.status();
    EXPECT_EQ(*found, one.index) << one.word;
  }
}

TEST(FindJob, NoneOrSeveralAreErrorsThatListCandidates) {
  const auto several = FindJob(Jobs(), "1234");
  EXPECT_TRUE(absl::IsFailedPrecondition(several.status()));
  EXPECT_EQ(several.status().message(),
            "'1234' may be job-12340000 (ended 0), job-12345678 (lost): name one by its id");
  EXPECT_THAT(std::string(FindJob(Jobs(), "twice").status().message()), HasSubstr("job-eee00001"));
  EXPECT_FALSE(FindJob(Jobs(), "job-").ok());  // two of them run
  const auto none = FindJob(Jobs(), "zzz");
  EXPECT_TRUE(absl::IsNotFound(none.status()));
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("job-abd00000 'night' (running)"));
  EXPECT_FALSE(FindJob(Jobs(), "").ok());
  EXPECT_THAT(std::string(FindJob({}, "x").status().message()), HasSubstr("launch --detach"));
  const std::vector<JobRecord> many(20, Job("job-1", "", JobState::kEnded));
  EXPECT_THAT(std::string(FindJob(many, "q").status().message()), HasSubstr("and 12 more"));
}

TEST(FindJob, OfSeveralThatRunTheEndedOnesAreNotNamed) {
  std::vector<JobRecord> jobs(10, Job("job-00000001", "night", JobState::kEnded));
  jobs.push_back(Job("job-00000002", "night", JobState::kRunning));
  jobs.push_back(Job("job-00000003", "night", JobState::kStarting));
  EXPECT_EQ(FindJob(jobs, "night").status().message(),
            "'night' may be job-00000002 'night' (running), job-00000003 'night' (starting): name "
            "one by its id");
}

TEST(FindJobs, AllThatAWordMayMean) {
  using Indexes = std::vector<size_t>;
  EXPECT_EQ(FindJobs(Jobs(), "night").value(), (Indexes{2, 3}));
  EXPECT_EQ(FindJobs(Jobs(), "1234").value(), (Indexes{0, 1}));
  EXPECT_EQ(FindJobs(Jobs(), "job-12340000").value(), Indexes{0});
  EXPECT_TRUE(absl::IsNotFound(FindJobs(Jobs(), "zzz").status()));
}

TEST(NameTaken, SaysWhoHasTheNameOfAJobThatStarts) {
  EXPECT_EQ(NameTaken(Jobs(), "night"),
            "--name night: job-abd00000 'night' (running) has that name, too: launch attach, logs "
            "and stop want their ids as long as more than one runs");
  EXPECT_EQ(NameTaken(Jobs(), "twice"), "");  // they have ended
  EXPECT_EQ(NameTaken(Jobs(), "new"), "");
  EXPECT_EQ(NameTaken({Job("job-1", "", JobState::kRunning)}, ""), "");
}

TEST(JobTable, AJobThatMayHaveEndedWithItsSchedulersIsToldFromOneThatWasKilled) {
  JobRecord lost = Job("job-00000001", "", JobState::kLost);
  EXPECT_EQ(HowEnded(lost),
            "job-00000001 was lost: its launcher was killed, and nothing of it runs");
  lost.within = "Slurm job 5";
  EXPECT_EQ(HowEnded(lost),
            "job-00000001 was lost: its launcher was killed, and nothing of it runs; it ran in "
            "Slurm job 5, whose script or shell takes all with it at its end");
  EXPECT_THAT(JobTable({lost}, absl::UnixEpoch(), 0), HasSubstr(" lost in Slurm job 5 "));
  JobRecord ended = Job("job-00000002", "", JobState::kEnded);
  ended.exit_code = 3;
  EXPECT_EQ(HowEnded(ended), "job-00000002 has ended with 3");
}

TEST(FindJob, ANumberThatMayBeSlurmsHasItsCommand) {
  for (const char* number : {"5", "12_3", "7.0"}) {
    EXPECT_EQ(StopOfSlurm(number, true),
              absl::StrCat("; if job ", number, " of Slurm is meant: scancel ", number));
    EXPECT_EQ(StopOfSlurm(number, false), "");
  }
  for (const char* other : {"", "night", "job-5", "5a", "_5"}) {
    EXPECT_EQ(StopOfSlurm(other, true), "") << other;
  }
}

TEST(JobTable, OneLineAJob) {
  JobRecord running = Job("job-00000001", "night", JobState::kRunning);
  running.world_size = 32;
  running.nodes = 2;
  running.command = {"train.py", "two words", "new\nline"};
  JobRecord ended = Job("job-00000002", "", JobState::kEnded);
  ended.exit_code = 137;
  EXPECT_EQ(JobTable({running, ended}, absl::UnixEpoch() + absl::Hours(5), 0),
            "ID            NAME   STATE      WORLD  NODES  AGE  COMMAND\n"
            "job-00000001  night  running    32     2      5 h  train.py 'two words' 'new line'\n"
            "job-00000002  -      ended 137  -      -      5 h  train.py\n");
  EXPECT_EQ(JobTable({ended}, absl::UnixEpoch(), 12), "ID          \njob-00000002\n");
}

TEST(JobTable, Ages) {
  static constexpr struct {
    absl::Duration age;
    const char* shown;
  } kCases[] = {{-absl::Seconds(5), " 0 s "},    {absl::Seconds(119), " 119 s "},
                {absl::Seconds(120), " 2 min "}, {absl::Hours(2), " 2 h "},
                {absl::Hours(47), " 47 h "},     {absl::Hours(72), " 3 d "}};
  for (const auto& one : kCases) {
    EXPECT_THAT(JobTable({Job("job-1", "", JobState::kEnded)}, absl::UnixEpoch() + one.age, 0),
                HasSubstr(one.shown));
  }
}

TEST(RestartJson, SaysWhichJobAndWhatFollows) {
  JobRecord record;
  record.id = "job-1";
  record.name = "night";
  EXPECT_EQ(RestartJson(record, true, "round 1.1 is stopped"),
            "{\n  \"id\": \"job-1\",\n  \"name\": \"night\",\n  \"restarts\": true,\n"
            "  \"text\": \"round 1.1 is stopped\"\n}\n");
}

TEST(JobsJson, IsAListOfRecords) {
  EXPECT_EQ(JobsJson({}), "[]\n");
  EXPECT_THAT(JobsJson(Jobs()), HasSubstr("\"id\": \"job-fff00000\""));
}

}  // namespace
}  // namespace muster
