#include "rendezvous/core/replay.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

// Of a master whose clock is an hour behind ours.
constexpr absl::Duration kShift = absl::Hours(1);
const absl::Time written_at = absl::UnixEpoch() + absl::Minutes(10);

JournalRecord Record() {
  JournalRecord record;
  record.at = written_at;
  DurableRound& round = record.round.emplace();
  round.round = round.chain = {1, 3};
  round.started_in = {3, 3};
  DurableNode& node = round.members.emplace_back();
  node.since = round.round;
  node.node = NodeId{1};
  node.incarnation = Incarnation{1};
  node.join.key = "a";
  node.join.workers = 2;
  DurableProgress& progress = record.progress.emplace();
  progress.phase = JobPhase::kRunning;
  progress.restarts = 4;
  progress.used.job = 2;
  progress.used.by_rank = {{Rank{1}, 2}};
  progress.used.by_node = {{NodeId{1}, 1}, {NodeId{2}, 1}};
  progress.failures = {{NodeId{1}, 2}};
  progress.set_aside = {{NodeId{2}, {written_at + absl::Minutes(5), "3 failures began there"}}};
  progress.short_rounds = 3;
  progress.not_before = written_at + absl::Seconds(2);
  progress.begun = written_at - absl::Minutes(9);
  progress.round_began = written_at - absl::Minutes(1);
  progress.stop_began = written_at - absl::Seconds(3);
  return record;
}

RoundState TakenOver(const JournalRecord& record, absl::Time now) {
  RoundConfig config;
  config.journal = true;
  config.restarts_max = 9;
  RoundState state;
  const absl::Status replayed = Replay(config, state, Shifted(record, kShift));
  EXPECT_TRUE(replayed.ok()) << replayed;
  Resurrect(config, state, now);
  return state;
}

TEST(Replay, KnowsWhatRestartsHaveCost) {
  const DurableProgress kept = *Record().progress;
  const RoundState state = TakenOver(Record(), written_at + kShift);
  EXPECT_EQ(state.report.restarts, 4u);
  EXPECT_EQ(state.used, kept.used);
  EXPECT_EQ(state.failures, kept.failures);
  EXPECT_EQ(state.short_rounds, 3u);
}

TEST(Replay, MovesTimesToTheClockOfThisMaster) {
  const DurableProgress kept = *Record().progress;
  const RoundState state = TakenOver(Record(), written_at + kShift);
  EXPECT_EQ(state.set_aside.at(NodeId{2}).until, written_at + absl::Minutes(5) + kShift);
  EXPECT_EQ(state.set_aside.at(NodeId{2}).why, "3 failures began there");
  EXPECT_EQ(state.last_restart.not_before, kept.not_before + kShift);
  EXPECT_EQ(state.begun, kept.begun + kShift);
  EXPECT_EQ(state.round_began, kept.round_began + kShift);
  EXPECT_EQ(state.stop_began, kept.stop_began + kShift);
}

// What has passed since the last record counts, where wall clocks tell of it.
TEST(Replay, TheTimeSinceTheLastRecordCounts) {
  const absl::Time wall = absl::FromUnixSeconds(1700000000);
  const absl::Time now = written_at + kShift;
  JournalRecord last = Record();
  EXPECT_EQ(ShiftTo(now, wall, last), kShift) << "an old record, that does not say";
  last.wall_at = wall - absl::Minutes(20);
  EXPECT_EQ(ShiftTo(now, wall, last), kShift - absl::Minutes(20));
  last.wall_at = wall + absl::Minutes(20);
  EXPECT_EQ(ShiftTo(now, wall, last), kShift) << "a wall clock that was set back";
  last.wall_at = absl::UnixEpoch();
  EXPECT_EQ(ShiftTo(now, wall, last), kShift) << "one that was not set";
}

TEST(Replay, EndsAPauseAndCountsItForNothing) {
  JournalRecord record = Record();
  record.progress->paused_since = written_at;
  constexpr absl::Duration kPause = absl::Minutes(30);
  const RoundState state = TakenOver(record, written_at + kShift + kPause);
  EXPECT_FALSE(state.paused);
  EXPECT_EQ(state.begun, record.progress->begun + kShift + kPause);
  EXPECT_EQ(state.round_began, record.progress->round_began + kShift + kPause);
}

TEST(Replay, OfAJobThatNeverHadARoundNothingMoves) {
  JournalRecord record = Record();
  record.round.reset();
  record.progress->ended = true;
  record.progress->phase = JobPhase::kEnded;
  record.progress->not_before = record.progress->round_began = absl::InfinitePast();
  const RoundState state = TakenOver(record, written_at + kShift);
  EXPECT_EQ(state.last_restart.not_before, absl::InfinitePast());
  EXPECT_EQ(state.round_began, absl::InfinitePast());
}

}  // namespace
}  // namespace muster
