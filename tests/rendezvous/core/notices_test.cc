#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/round_machine.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A master and its nodes, each with two workers.
class NoticesTest : public testing::Test {
 protected:
  void Join(const std::string& name, std::vector<ProgramFile> files) {
    muster::Join join;
    join.key = join.hostname = name;
    join.address = "10.0.0.1";
    join.life = ++lives_;
    join.workers = 2;
    join.store_port = 4000;
    join.program_files = std::move(files);
    Do(JoinReceived{{lives_}, std::move(join)});
  }
  // A node whose workers run, or all but the first, which have ended.
  void Beat(uint32_t node, absl::Duration idle, uint32_t ended = 0,
            const std::vector<WaitPlace>& waits = {}) {
    muster::Beat beat;
    beat.node = NodeId{node};
    beat.incarnation = state_.nodes.at(beat.node).incarnation;
    beat.seq = ++beats_;
    beat.phase = AgentPhase::kRunning;
    beat.round = state_.round;
    beat.workers_alive = 2 - ended;
    beat.workers_started = 2;
    beat.use.workers = 2;
    beat.use.idle = idle;
    beat.use.waits = waits;
    for (uint32_t i = state_.nodes.at(beat.node).exits_seen; i < ended; ++i) {
      WorkerExit exit;
      exit.local_rank = LocalRank{i};
      exit.rank = Rank{2 * static_cast<uint32_t>(state_.nodes.at(beat.node).place) + i};
      beat.exits.push_back(exit);
    }
    now_ += absl::Seconds(2);
    Do(BeatReceived{std::move(beat)});
  }
  void Do(const RoundEvent& event) {
    for (const RoundEffect& effect : Step(config_, state_, event, now_)) {
      if (const auto* tell = std::get_if<Tell>(&effect)) {
        told_.push_back(tell->text);
      } else if (const auto* send = std::get_if<Send>(&effect)) {
        for (const std::string& notice : send->directive.notices) {
          noticed_.push_back(absl::StrCat("node ", send->node.value, ": ", notice));
        }
      }
    }
  }
  void Start(size_t nodes) {
    config_.nodes_min = config_.nodes_max = static_cast<uint32_t>(nodes);
    config_.lease = absl::Hours(100);
  }

  RoundConfig config_;
  RoundState state_;
  uint64_t lives_ = 0;
  uint64_t beats_ = 0;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::vector<std::string> told_;
  std::vector<std::string> noticed_;  // at nodes
};

TEST_F(NoticesTest, AnotherFileOnOneNode) {
  Start(3);
  Join("node0", {{"a.py", "1"}});
  Join("node1", {{"a.py", "2"}});
  EXPECT_THAT(told_, IsEmpty());
  Join("node2", {{"a.py", "1"}});
  EXPECT_THAT(told_, ElementsAre("a.py on node1 is not the same file as on node0: ranks run unlike "
                                 "code; copy it to all nodes, or let --ship do it"));
}

TEST_F(NoticesTest, TheFileOfMostNodesIsTheRightOne) {
  Start(4);
  Join("node0", {{"a.py", "1"}});
  Join("node1", {{"a.py", "2"}});
  Join("node2", {{"a.py", "0"}});
  Join("node3", {{"a.py", "2"}});
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_THAT(told_[0],
              testing::HasSubstr("a.py on node0, node2 is not the same file as on node1"));
}

TEST_F(NoticesTest, OfAsManyTheFirstNodesCounts) {
  Start(2);
  Join("node0", {{"a.py", "2"}});
  Join("node1", {{"a.py", "1"}});
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_THAT(told_[0], testing::HasSubstr("a.py on node1 is not the same file as on node0"));
}

TEST_F(NoticesTest, EachProgramIsComparedWithItself) {
  Start(2);
  Join("node0", {{"a.py", "1"}, {}, {"c", "3"}});
  Join("node1", {{"a.py", "1"}, {"b", "2"}, {"c", "4"}});
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_THAT(told_[0], testing::HasSubstr("c on node1"));
}

TEST_F(NoticesTest, AFileThatIsNotThereIsMissed) {
  Start(4);
  Join("node0", {{"a.py", ""}});
  Join("node1", {{"a.py", ""}});
  Join("node2", {{"a.py", "1"}});
  Join("node3", {{"a.py", "2"}});
  EXPECT_THAT(told_, ElementsAre("a.py on node3 is not the same file as on node2: ranks run unlike "
                                 "code; copy it to all nodes, or let --ship do it",
                                 "a.py is not on node0, node1 where it is on node2: copy it to all "
                                 "nodes, or let --ship do it"));
}

TEST_F(NoticesTest, AFileThatIsOnNoNodeIsNotMissed) {
  Start(2);
  Join("node0", {{"a.py", ""}});
  Join("node1", {{"a.py", ""}});
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(NoticesTest, WhoHasNothingToCompareIsNoOther) {
  Start(3);
  Join("node0", {{"a.py", "1"}});
  Join("node1", {});
  Join("node2", {{"a.py", "1"}});
  EXPECT_THAT(told_, IsEmpty());
}

class IdleTest : public NoticesTest {
 protected:
  IdleTest() {
    Start(2);
    Join("node0", {});
    Join("node1", {});
  }
};

TEST_F(IdleTest, AfterTheTimeThenAfterTwice) {
  for (const int minutes : {4, 5, 6, 9, 10, 12}) {
    Beat(1, absl::Minutes(minutes));
    Beat(2, absl::Minutes(minutes));
  }
  EXPECT_THAT(
      told_,
      ElementsAre("none of the 4 workers has run or written a line for 5 min; next word after 10 "
                  "min (--tell-idle). They wait; py-spy dump --pid PID or gdb -p PID on their node "
                  "shows where",
                  "none of the 4 workers has run or written a line for 10 min; next word after 20 "
                  "min (--tell-idle). They wait; py-spy dump --pid PID or gdb -p PID on their node "
                  "shows where"));
}

TEST_F(IdleTest, OnceWhereItIsSeenLate) {
  Beat(1, absl::Minutes(23));
  Beat(2, absl::Minutes(23));
  Beat(1, absl::Minutes(24));
  Beat(2, absl::Minutes(24));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_THAT(told_[0], testing::HasSubstr("for 23 min; next word after 40 min"));
}

TEST_F(IdleTest, NotBeforeAllHaveStarted) {
  Beat(1, absl::Minutes(6));
  EXPECT_THAT(told_, IsEmpty());
  Beat(2, absl::Minutes(6));
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(IdleTest, OneThatWorksIsEnough) {
  Beat(1, absl::ZeroDuration());
  for (int minutes = 1; minutes < 30; ++minutes) {
    Beat(2, absl::Minutes(minutes));
  }
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(IdleTest, WhoHasEndedIsNotAskedAndIsNamed) {
  Beat(1, absl::ZeroDuration(), 2);
  Beat(2, absl::Minutes(7), 1);
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_THAT(told_[0], testing::StartsWith("the worker has neither run nor written a line for 7 "
                                            "min (3 of 4 have ended); next"));
}

TEST_F(IdleTest, WhereTheyWaitTheOddOneFirst) {
  Beat(1, absl::Minutes(6), 0, {{"futex", 11, {0, 1}}});
  Beat(2, absl::Minutes(6), 0, {{"recv: TCP 10.0.0.1:4000", 21, {0}}, {"futex", 22, {1}}});
  EXPECT_THAT(
      told_,
      ElementsAre("none of the 4 workers has run or written a line for 6 min; next word after 10 "
                  "min (--tell-idle). They wait (py-spy dump --pid PID or gdb -p PID there shows "
                  "more):",
                  "  rank 2 (pid 21 on node1) in recv: TCP 10.0.0.1:4000",
                  "  ranks 0-1,3 (the first: pid 11 on node0) in futex"));
}

TEST_F(IdleTest, WhereTheyWaitOfWhoLives) {
  Beat(1, absl::Minutes(6), 1, {{"sleep", 12, {1, 2}}});
  Beat(2, absl::Minutes(6));
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_THAT(told_[0], testing::HasSubstr("(1 of 4 have ended)"));
  EXPECT_EQ(told_[1], "  rank 1 (pid 12 on node0) in sleep");
}

TEST_F(IdleTest, NobodyElseIsToldWhereTheUserIsHere) {
  Beat(1, absl::Minutes(6));
  Beat(2, absl::Minutes(6));
  EXPECT_EQ(told_.size(), 1u);
  EXPECT_THAT(noticed_, IsEmpty());
}

TEST_F(IdleTest, UsersAtTheNodesAreToldAtTheFirst) {
  config_.users_at_nodes = true;
  Beat(1, absl::Minutes(6), 0, {{"futex", 11, {0, 1}}});
  Beat(2, absl::Minutes(6));
  ASSERT_EQ(told_.size(), 2u);  // for the log of whoever serves
  EXPECT_THAT(noticed_, ElementsAre("node 1: " + told_[0], "node 1: " + told_[1]));
}

TEST_F(NoticesTest, UsersAtTheNodesHearOfUnlikeFilesWithTheirRound) {
  config_.users_at_nodes = true;
  Start(2);
  Join("node0", {{"a.py", "2"}});
  Join("node1", {{"a.py", "1"}});
  ASSERT_EQ(noticed_.size(), 1u);
  EXPECT_EQ(noticed_[0], "node 1: " + told_.at(0));
}

TEST_F(NoticesTest, OfManyPlacesAFew) {
  Start(4);
  for (uint32_t i = 0; i < 4; ++i) {
    Join(absl::StrCat("node", i), {});
  }
  for (uint32_t i = 1; i <= 4; ++i) {
    Beat(i, absl::Minutes(6), 0,
         {{absl::StrCat("read: /data/", i), 1, {0}}, {absl::StrCat("flock: /data/", i), 2, {1}}});
  }
  ASSERT_EQ(told_.size(), 7u);
  EXPECT_EQ(told_[1], "  rank 0 (pid 1 on node0) in read: /data/1");
  EXPECT_EQ(told_[6], "  the others in 3 more places");
}

TEST_F(IdleTest, NotWhilePausedNorWhereTheUserDoesNotWant) {
  Beat(1, absl::ZeroDuration());
  Beat(2, absl::Minutes(7));
  Do(PauseAsked{true});
  Beat(1, absl::Minutes(7));
  Beat(2, absl::Minutes(7));
  EXPECT_THAT(told_, IsEmpty());
  Do(PauseAsked{false});
  Beat(1, absl::Minutes(8));
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(NoticesTest, IdleButNeverTold) {
  for (const absl::Duration never : {absl::InfiniteDuration(), absl::ZeroDuration()}) {
    state_ = RoundState();
    config_.tell_idle = never;
    Start(1);
    Join("node0", {});
    Beat(1, absl::Hours(7));
    Beat(1, absl::InfiniteDuration());
    EXPECT_THAT(told_, IsEmpty());
  }
}

TEST_F(IdleTest, ANodeThatSaysForEverIsHeardOnce) {
  for (int i = 0; i < 3; ++i) {
    Beat(1, absl::InfiniteDuration());
    Beat(2, absl::InfiniteDuration());
  }
  EXPECT_EQ(told_.size(), 1u);
}

}  // namespace
}  // namespace muster
