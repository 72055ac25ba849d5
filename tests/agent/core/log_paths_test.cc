#include "agent/core/log_paths.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

Assignment SecondAttempt() {
  Assignment a;
  a.round = {1, 3};
  a.node_rank = NodeRank{1};
  a.rank_first = Rank{4};
  a.workers = 4;
  return a;
}

TEST(LogPaths, OursAreByRankAndRound) {
  const LogPlace place = {"/logs", LogLayout::kMuster, "job"};
  const Assignment a = SecondAttempt();
  EXPECT_EQ(LogPath(place, a, LocalRank{1}, 1), "/logs/job/round-3/rank-5.out");
  EXPECT_EQ(LogPath(place, a, LocalRank{1}, 2), "/logs/job/round-3/rank-5.err");
  EXPECT_EQ(FilteredLogPath(place, a, 1), "/logs/job/round-3/node-1.filtered.out");
  EXPECT_EQ(FilteredLogPath(place, a, 2), "/logs/job/round-3/node-1.filtered.err");
  EXPECT_EQ(ErrorLogPath(place, a, LocalRank{1}), "");
}

TEST(LogPaths, NoJobLeavesTheFolder) {
  EXPECT_EQ(FolderOfJob("../../etc/passwd"), ".._.._etc_passwd");
  EXPECT_EQ(FolderOfJob(".."), "_..");
  EXPECT_EQ(FolderOfJob("."), "_.");
  EXPECT_EQ(FolderOfJob("my/id"), "my_id");
  EXPECT_EQ(FolderOfJob("job-1.a"), "job-1.a");
}

TEST(LogPaths, TorchrunsAreByLocalRankAndAttempt) {
  const LogPlace place = {"/logs", LogLayout::kTorchrun, "job_1"};
  const Assignment a = SecondAttempt();
  EXPECT_EQ(LogPath(place, a, LocalRank{1}, 1), "/logs/job_1/attempt_2/1/stdout.log");
  EXPECT_EQ(LogPath(place, a, LocalRank{1}, 2), "/logs/job_1/attempt_2/1/stderr.log");
  EXPECT_EQ(FilteredLogPath(place, a, 1), "/logs/job_1/attempt_2/filtered_stdout.log");
  EXPECT_EQ(FilteredLogPath(place, a, 2), "/logs/job_1/attempt_2/filtered_stderr.log");
  EXPECT_EQ(ErrorLogPath(place, a, LocalRank{0}), "/logs/job_1/attempt_2/0/error.json");
}

}  // namespace
}  // namespace muster
