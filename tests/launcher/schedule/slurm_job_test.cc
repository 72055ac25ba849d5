#include "launcher/schedule/slurm_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

absl::StatusOr<std::string> NoFile(const std::string& path) { return absl::NotFoundError(path); }

SlurmJob Ending(absl::Time ends) {
  SlurmJob out;
  out.ends = ends;
  return out;
}

TEST(SlurmJob, TimeAndPast) {
  const auto job = ReadSlurmJob(
      {{"SLURM_JOB_ID", "17"}, {"SLURM_JOB_END_TIME", "1700000000"}, {"SLURM_RESTART_COUNT", "2"}},
      NoFile);
  ASSERT_TRUE(job.ok() && job->has_value()) << job.status();
  EXPECT_EQ((*job)->name, "Slurm job 17");
  EXPECT_EQ((*job)->ends, absl::FromUnixSeconds(1700000000));
  EXPECT_EQ((*job)->restarts, 2u);
  const auto first = ReadSlurmJob({{"SLURM_JOB_ID", "17"}}, NoFile);
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_EQ((*first)->ends, absl::InfiniteFuture());
  EXPECT_EQ((*first)->restarts, 0u);
}

TEST(SlurmJob, ABatchScriptIsToldFromShellsAndTasks) {
  const std::pair<Variables, bool> cases[] = {
      {{{"SLURMD_NODENAME", "node0"}, {"SLURM_PROCID", "0"}}, true},
      {{}, false},  // salloc: on the submit host
      {{{"SLURMD_NODENAME", "node0"}, {"SLURM_STEP_ID", "4294967290"}}, false},  // its own shell
      {{{"SLURMD_NODENAME", "node0"}, {"SLURM_STEP_ID", "0"}}, false}};
  for (auto [environment, in_script] : cases) {
    environment["SLURM_JOB_ID"] = "3";
    const auto job = ReadSlurmJob(environment, NoFile);
    ASSERT_TRUE(job.ok() && job->has_value());
    EXPECT_EQ((*job)->in_script, in_script) << environment.size();
  }
}

TEST(SlurmJob, OneTaskOfSeveralIsSentWhatAllAre) {
  for (const auto& [tasks, many] : {std::pair("1", false), std::pair("2", true)}) {
    const auto job = ReadSlurmJob({{"SLURM_JOB_ID", "3"}, {"SLURM_STEP_NUM_TASKS", tasks}}, NoFile);
    ASSERT_TRUE(job.ok() && job->has_value());
    EXPECT_EQ((*job)->many_tasks, many);
  }
}

TEST(SlurmJob, OutsideAndInAWorkerThereIsNone) {
  const Variables none[] = {{},
                            {{"SLURM_JOB_ID", ""}},
                            {{"SLURM_RESTART_COUNT", "1"}},
                            {{"SLURM_JOB_ID", "3"}, {"MUSTER_JOB_ID", "job-1"}}};
  for (const Variables& environment : none) {
    const auto job = ReadSlurmJob(environment, NoFile);
    ASSERT_TRUE(job.ok());
    EXPECT_FALSE(job->has_value());
  }
}

TEST(SlurmJob, WhatIsNoNumberIsRefusedByName) {
  for (const char* name : {"SLURM_JOB_END_TIME", "SLURM_RESTART_COUNT", "SLURM_STEP_NUM_TASKS"}) {
    for (const char* value : {"soon", "-1", "1.5", "99999999999"}) {
      const auto job = ReadSlurmJob({{"SLURM_JOB_ID", "3"}, {name, value}}, NoFile);
      EXPECT_THAT(std::string(job.status().message()),
                  HasSubstr(absl::StrCat(name, "=", value, ": want a number")));
    }
  }
}

// All in seconds; -1 = the job's end is not known.
struct Case {
  const char* what;
  int left;
  int grace;       // J1, J2
  int left_of_45;  // of --grace 45
  int left_of_300;
};

class SlurmTime : public testing::TestWithParam<Case> {};

TEST_P(SlurmTime, IsWhatTheJobsEndLeaves) {
  const Case& c = GetParam();
  const absl::Time now = absl::FromUnixSeconds(1700000000);
  const absl::Time ends = c.left < 0 ? absl::InfiniteFuture() : now + absl::Seconds(c.left);
  const SlurmJob job = Ending(ends);
  EXPECT_EQ(SlurmGrace(job, now), absl::Seconds(c.grace)) << c.what;
  EXPECT_EQ(LeftOfGrace(absl::Seconds(45), job, now), absl::Seconds(c.left_of_45)) << c.what;
  EXPECT_EQ(LeftOfGrace(absl::Seconds(300), job, now), absl::Seconds(c.left_of_300)) << c.what;
}

INSTANTIATE_TEST_SUITE_P(Ends, SlurmTime,
                         testing::Values(Case{"not known", -1, 25, 45, 300},
                                         Case{"long before", 3600, 25, 45, 300},
                                         Case{"a warning", 60, 55, 45, 90},
                                         Case{"the longest warning", 600, 595, 45, 300},
                                         Case{"no warning any more", 601, 25, 45, 300},
                                         Case{"less than Slurm waits", 10, 25, 40, 40},
                                         Case{"at the end", 0, 25, 30, 30}));

TEST(SlurmTime, PastTheEndNothingIsTakenAway) {
  const absl::Time now = absl::FromUnixSeconds(1700000000);
  const SlurmJob over = Ending(now - absl::Seconds(20));
  EXPECT_EQ(SlurmGrace(over, now), absl::Seconds(25));
  EXPECT_EQ(LeftOfGrace(absl::Seconds(300), over, now), absl::Seconds(30));
}

TEST(KillWait, IsTheSitesOwn) {
  EXPECT_EQ(KillWaitOf("# KillWait=7\nKillWait=90 # long\nNodeName=a CPUs=2\n"), absl::Seconds(90));
  EXPECT_EQ(KillWaitOf("MinJobAge=300 killwait=5\r\n"), absl::Seconds(5));
  for (const char* none :
       {"", "KillWait=\n", "KillWait=x", "KillWait=99999999", "OverKillWait=3"}) {
    EXPECT_FALSE(KillWaitOf(none).has_value()) << none;
  }
  const auto read = [](const std::string& path) -> absl::StatusOr<std::string> {
    return path == "/site/slurm.conf" ? absl::StatusOr<std::string>("KillWait=5\n")
                                      : absl::NotFoundError(path);
  };
  const auto job = ReadSlurmJob({{"SLURM_JOB_ID", "3"}, {"SLURM_CONF", "/site/slurm.conf"}}, read);
  ASSERT_TRUE(job.ok() && job->has_value());
  EXPECT_EQ((*job)->kill_wait, absl::Seconds(5));
  EXPECT_EQ((*ReadSlurmJob({{"SLURM_JOB_ID", "3"}}, read))->kill_wait, absl::Seconds(30));
  const absl::Time now = absl::FromUnixSeconds(1700000000);
  EXPECT_EQ(SlurmGrace(**job, now), absl::Milliseconds(3750));  // J2
  EXPECT_EQ(LeftOfGrace(absl::Seconds(60),
                        SlurmJob{"3", "", now + absl::Seconds(10), false, false, false,
                                 absl::Seconds(5), 0},
                        now),
            absl::Seconds(15));
  EXPECT_EQ(GraceOf(absl::Seconds(120)), absl::Seconds(115));
  EXPECT_EQ(GraceOf(absl::ZeroDuration()), absl::ZeroDuration());
}

}  // namespace
}  // namespace muster
