#include "launcher/schedule/pbs_job.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using Variables = std::map<std::string, std::string>;

// Of a script whose shell is process 40, and has a name with blanks; we lead a process group.
absl::StatusOr<std::string> Proc(const std::string& path) {
  static const Variables files = {
      {"/proc/self/stat", "77 (launch) S 40 77 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 999 0\n"},
      {"/proc/40/stat", "40 (my ) sh) S 1 40 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12350 0\n"},
      {"/proc/77/stat", "77 (launch) S 40 77 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12450 0\n"},
      {"/proc/stat", "cpu  1 2 3\nintr 4 5\nctxt 6\nbtime 1700000000\nprocesses 9\n"}};
  const auto at = files.find(path);
  return at == files.end() ? absl::StatusOr<std::string>(absl::NotFoundError("none")) : at->second;
}

TEST(PbsJobTime, TorqueSaysHowLongAndTheScriptSinceWhen) {  // T1, T2
  const auto job = ReadPbsJob({{"PBS_JOBID", "21.node0"}, {"PBS_WALLTIME", "15"}}, Proc);
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->name, "PBS job 21.node0");
  EXPECT_EQ(job->walltime, absl::Seconds(15));
  EXPECT_EQ(job->ends, absl::FromUnixMillis(1700000000000 + 123500 + 15000));
}

TEST(PbsJobTime, WhereItsShellHasGoneTheGroupDoes) {  // T2
  const auto without = [](const std::string& path) -> absl::StatusOr<std::string> {
    return path == "/proc/40/stat" ? absl::NotFoundError("gone") : Proc(path);
  };
  const auto job = ReadPbsJob({{"PBS_JOBID", "21.node0"}, {"PBS_WALLTIME", "15"}}, without);
  ASSERT_TRUE(job.has_value());
  EXPECT_EQ(job->ends, absl::FromUnixMillis(1700000000000 + 124500 + 15000));
}

TEST(PbsJobTime, WhatIsNotSaidIsNotKnown) {
  for (const Variables& more :
       {Variables{}, Variables{{"PBS_WALLTIME", "soon"}}, Variables{{"PBS_WALLTIME", "0"}}}) {
    Variables environment = more;
    environment["PBS_JOBID"] = "21.node0";
    const auto job = ReadPbsJob(environment, Proc);
    ASSERT_TRUE(job.has_value());
    EXPECT_EQ(job->ends, absl::InfiniteFuture());
  }
}

TEST(PbsJobTime, WithoutProcNothingIsKnownOfTheEnd) {
  for (const char* text : {"", "77 (launch", "btime soon\n", "77 (launch) S 40 77 99 0"}) {
    const auto job = ReadPbsJob({{"PBS_JOBID", "21.node0"}, {"PBS_WALLTIME", "15"}},
                                [text](const std::string&) { return std::string(text); });
    ASSERT_TRUE(job.has_value());
    EXPECT_EQ(job->ends, absl::InfiniteFuture());
  }
}

TEST(PbsJobTime, OutsideAndInAWorkerThereIsNone) {
  EXPECT_FALSE(ReadPbsJob({}, Proc).has_value());
  EXPECT_FALSE(
      ReadPbsJob({{"PBS_JOBID", "21.node0"}, {"MUSTER_JOB_ID", "job-1"}}, Proc).has_value());
}

}  // namespace
}  // namespace muster
