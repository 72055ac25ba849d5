#include "launcher/own_ends.h"

#include <gtest/gtest.h>

#include <csignal>

#include "launcher/report.h"

namespace muster {
namespace {

WorkerExit Exit(uint32_t rank, ExitKind kind, int code, bool stopped_by_us = false) {
  WorkerExit out;
  out.rank = Rank{rank};
  out.pid = static_cast<int>(100 + rank);
  out.kind = kind;
  out.code = code;
  out.stopped_by_us = stopped_by_us;
  out.ran_for = absl::Seconds(2);
  return out;
}

Assignment Round(uint32_t restarts, std::string because) {
  Assignment out;
  out.restart_count = restarts;
  out.because = std::move(because);
  return out;
}

TEST(OwnEnds, ARoundIsToldWithWhyItBegan) {
  OwnEnds ends;
  EXPECT_EQ(ends.RoundBegan(Round(0, "")), "");
  const std::string killed = "rank 2 on node1 (pid 102) was ended by SIGKILL; restart 1 of 2";
  EXPECT_EQ(ends.RoundBegan(Round(1, killed)), killed);
  EXPECT_EQ(ends.RoundBegan(Round(1, killed)), "");  // a round that keeps its workers goes on
  EXPECT_EQ(ends.RoundBegan(Round(2, killed)), killed);
  const std::string fewer = "node node2 was lost; a round of 2 nodes goes on";
  EXPECT_EQ(ends.RoundBegan(Round(2, fewer)), fewer);
}

TEST(OwnEnds, OnlyWhatThePresentRoundSawIsOnThePage) {
  OwnEnds ends;
  ends.Ended("node1", Exit(2, ExitKind::kSignaled, SIGKILL));
  ends.RoundBegan(Round(1, "rank 2 failed; restart 1 of 1"));
  EXPECT_TRUE(ends.Report({1, "node node0 was lost"}).exits.empty());
}

// At a daemon, which writes none.
TEST(OwnEnds, TheFirstNodeWritesTheReport) {
  OwnEnds ends;
  EXPECT_TRUE(ends.WritesFile()) << "there was no round";
  Assignment round = Round(2, "rank 0 failed; restart 2 of 2");
  round.node_rank = NodeRank{1};
  ends.RoundBegan(round);
  EXPECT_FALSE(ends.WritesFile());
  round.node_rank = NodeRank{0};
  ends.RoundBegan(round);
  EXPECT_TRUE(ends.WritesFile());
  ends.Ended("node1", Exit(0, ExitKind::kExited, 3));
  const JobReport report =
      ends.ForFile({3, "rank 0 on node1 (pid 100) ended with exit code 3 after 2.0 s"});
  EXPECT_EQ(report.restarts, 2u);
  EXPECT_EQ(report.exit_code, 3);
  ASSERT_TRUE(report.first.has_value());
  EXPECT_EQ(report.first->exit.rank, Rank{0});
}

TEST(OwnEnds, ThePageSaysWhatThisNodeKnows) {
  OwnEnds ends;
  WorkerExit failed = Exit(2, ExitKind::kExited, 5);
  failed.stderr_tail = "bad luck\n";
  ends.Ended("node1", failed);
  ends.Ended("node1", Exit(3, ExitKind::kSignaled, SIGTERM, /*stopped_by_us=*/true));
  EXPECT_EQ(
      ReportText(ends.Report({5, "rank 2 on node1 (pid 102) ended with exit code 5 after 2.0 s"}),
                 "train"),
      "muster: job train: rank 2 on node1 (pid 102) ended with exit code 5 after 2.0 s\n"
      "  its last lines on stderr:\n"
      "    | bad luck\n"
      "  stopped because of that: rank 3 (SIGTERM)\n"
      "  exit code 5\n");
  EXPECT_EQ(ReportText(ends.Report({1, "node node0 was lost"}), "train"),
            "muster: job train: node node0 was lost\n"
            "  failed as well: rank 2 (exit code 5)\n"
            "  stopped because of that: rank 3 (SIGTERM)\n"
            "  exit code 1\n");
  EXPECT_EQ(ReportText(ends.Report({0, ""}), "train"), "");
}

}  // namespace
}  // namespace muster
