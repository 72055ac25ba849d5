// Rounds that keep the workers of the one before them, word by word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/agent/io/worker_link_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class WorkerDoorKeepTest : public WorkerDoorLinkTest {
 protected:
  WorkerDoorKeepTest() {
    a_.door->LetFollow(true);
    b_.door->LetFollow(true);
  }
  void KeepRound(uint32_t round) {
    a_.door->KeepRound(TwoEach(0, 3, round));
    b_.door->KeepRound(TwoEach(1, 3, round));
  }
  static LinkHello Following(uint32_t rank, uint32_t round = 7) {
    LinkHello hello = Hello(rank);
    hello.round = RoundId{1, round}.Token();
    hello.follows = 1;
    return hello;
  }
  // Says it, and does not wait for the answer.
  Worker Ask(const Node& node, LinkHello hello) {
    Worker out;
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    out.link.Reset(ends[0]);
    const UniqueFd theirs(ends[1]);
    iovec part = {&hello, sizeof(hello)};
    EXPECT_GT(SendWithFd(node.outside.get(), &part, 1, theirs.get(), 0), 0);
    RunReady();
    return out;
  }
  static bool IsAnswered(Worker& worker) {
    iovec answer = {&worker.welcome, sizeof(worker.welcome)};
    return ReceiveWithFd(worker.link.get(), &answer, 1, worker.arena, MSG_DONTWAIT) ==
           static_cast<ssize_t>(sizeof(worker.welcome));
  }
  static ArenaHeader HeaderOf(const Worker& worker) {
    ArenaHeader header;
    EXPECT_EQ(pread(worker.arena.get(), &header, sizeof(header), 0),
              static_cast<ssize_t>(sizeof(header)));
    return header;
  }
};

TEST_F(WorkerDoorKeepTest, WhoFollowsIsAnsweredWhenThereIsANextRound) {
  const Worker zero = Open(a_, 0);
  const Worker one = Open(a_, 1);
  a_.door->WorkerEnded(LocalRank{1});
  Worker next = Ask(a_, Following(0));
  EXPECT_FALSE(IsAnswered(next));
  KeepRound(8);
  ASSERT_TRUE(IsAnswered(next));
  EXPECT_EQ(next.welcome.answer, LinkAnswer::kWelcome);
  EXPECT_EQ(next.welcome.round, (RoundId{1, 8}.Token()));
  EXPECT_EQ(next.welcome.replaces, 0u);
  EXPECT_EQ(next.welcome.number, 0u);
  EXPECT_EQ(EndOf(next, 1), LineEnd::kNone) << "another one comes";
  // The one in whose place it is comes by its own environment.
  LinkHello hello = Hello(1);
  hello.round = RoundId{1, 8}.Token();
  const Worker newcomer = Knock(a_, hello);
  EXPECT_EQ(newcomer.welcome.answer, LinkAnswer::kWelcome);
  EXPECT_EQ(newcomer.welcome.replaces, 1u);
}

TEST_F(WorkerDoorKeepTest, WhoStillWaitsInTheOldRoundIsToldThatItIsOver) {
  const Worker zero = Open(a_, 0);
  const Worker two = Open(b_, 2);
  a_.door->WorkerEnded(LocalRank{1});
  EXPECT_EQ(HeaderOf(zero).over, 0u);
  KeepRound(8);
  EXPECT_EQ(HeaderOf(zero).over, 1u);
  EXPECT_EQ(HeaderOf(zero).over_place, 1);
  EXPECT_THAT(HeaderOf(zero).over_why, HasSubstr("rank 1 has ended, and this round with it"));
  EXPECT_EQ(HeaderOf(two).over_place, -1);
  EXPECT_THAT(HeaderOf(two).over_why, HasSubstr("a worker of another node"));
  // A connection that is sought now would never be.
  EXPECT_TRUE(two.Say(LinkVerb::kSeek, 0));
  const auto [peer, socket] = Hear(two);
  EXPECT_EQ(peer.answer, LinkAnswer::kOver);
  EXPECT_EQ(peer.rank, 0u);
}

TEST_F(WorkerDoorKeepTest, WhatIsHeldUpIsSaidInEveryArena) {
  const Worker first = Open(a_, 0);
  EXPECT_EQ(HeaderOf(first).held_until, 0u);
  a_.door->HoldUp(absl::Milliseconds(200), absl::Hours(1));
  const Worker later = Open(a_, 0);
  for (const Worker* worker : {&first, &later}) {
    EXPECT_EQ(HeaderOf(*worker).held_for, 200'000'000u);
    EXPECT_GT(HeaderOf(*worker).held_until, 3'000'000'000'000u);
  }
}

TEST_F(WorkerDoorKeepTest, NothingOfAnOldRoundIsInTheNextOne) {
  const Worker zero = Open(a_, 0);
  a_.door->WorkerEnded(LocalRank{1});
  KeepRound(8);
  Worker next = Ask(a_, Following(0));
  ASSERT_TRUE(IsAnswered(next)) << "there is one already";
  EXPECT_EQ(HeaderOf(next).over, 0u);
  // The old link's end is no end of the new one's.
  {
    const Worker old = Open(a_, 0);  // its second communicator of round 8
    KeepRound(9);
  }
  RunReady();
  Worker after = Ask(a_, Following(0, 8));
  ASSERT_TRUE(IsAnswered(after));
  EXPECT_EQ(after.welcome.number, 0u);
  EXPECT_EQ(EndOf(after, 0), LineEnd::kNone);
}

TEST_F(WorkerDoorKeepTest, WhatADeadWorkerHasSaidIsNotTakenForItsSuccessors) {
  a_.door->WorkerEnded(LocalRank{1});
  KeepRound(8);
  const Worker late = Knock(a_, Hello(1));
  EXPECT_EQ(late.welcome.answer, LinkAnswer::kRefused);
  EXPECT_THAT(late.welcome.why, HasSubstr("is no worker of this node"));
  // Of one that lives it is: the round is the one that it knows.
  EXPECT_EQ(Knock(a_, Hello(0)).welcome.round, (RoundId{1, 8}.Token()));
  LinkHello group = Hello(0);
  group.group = kGroupMin;
  EXPECT_EQ(Knock(a_, group).welcome.answer, LinkAnswer::kOver);
}

TEST_F(WorkerDoorKeepTest, WhoHasGivenUpWaitingIsNotLetIn) {
  { const Worker gone = Ask(a_, Following(0)); }
  a_.door->WorkerEnded(LocalRank{1});
  KeepRound(8);
  Worker again = Ask(a_, Following(0));
  ASSERT_TRUE(IsAnswered(again));
  EXPECT_EQ(again.welcome.number, 0u);
  EXPECT_EQ(EndOf(again, 0), LineEnd::kNone);
}

TEST_F(WorkerDoorKeepTest, WhomNobodyReplacesHasEndedInTheNextRoundToo) {
  a_.door->WorkerEnded(LocalRank{1});
  KeepRound(8);
  a_.door->WorkerEnded(LocalRank{1});
  Worker next = Ask(a_, Following(0));
  ASSERT_TRUE(IsAnswered(next));
  EXPECT_EQ(EndOf(next, 1), LineEnd::kDied);
}

TEST_F(WorkerDoorKeepTest, WhereOneHasEndedWellNobodyWaitsForAll) {
  Worker follows = Ask(a_, Following(0));
  EXPECT_FALSE(IsAnswered(follows));
  a_.door->MeetNoMore(Rank{3});
  Worker late = Ask(a_, Following(0));
  Worker comes = Ask(a_, Hello(1));
  for (Worker* const worker : {&follows, &late, &comes}) {
    ASSERT_TRUE(IsAnswered(*worker));
    EXPECT_EQ(worker->welcome.answer, LinkAnswer::kRefused);
    EXPECT_THAT(worker->welcome.why, HasSubstr("rank 3 has ended well, and is not started again"));
  }
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{1}), Rank{3});
  a_.door->BeginRound(TwoEach(0, 3, 8));  // which starts all
  LinkHello anew = Hello(1);
  anew.round = RoundId{1, 8}.Token();
  EXPECT_EQ(Knock(a_, anew).welcome.answer, LinkAnswer::kWelcome);
}

TEST_F(WorkerDoorKeepTest, ANodeThatComesLaterHasNewcomersOnly) {
  Assignment later = TwoEach(0, 3, 8);
  later.keeps_from = {1, 7};
  later.started_in = {8, 8};
  a_.door->BeginRound(later);
  LinkHello hello = Hello(0);
  hello.round = later.round.Token();
  EXPECT_EQ(Knock(a_, hello).welcome.replaces, 1u);
}

TEST_F(WorkerDoorKeepTest, WithoutANextRoundNobodyWaits) {
  a_.door->LetFollow(false);
  Worker refused = Ask(a_, Following(0));
  ASSERT_TRUE(IsAnswered(refused));
  EXPECT_EQ(refused.welcome.answer, LinkAnswer::kOver);
  EXPECT_THAT(refused.welcome.why, HasSubstr("launch --restart=one"));
  a_.door->LetFollow(true);
  Worker waits = Ask(a_, Following(0));
  EXPECT_FALSE(IsAnswered(waits));
  a_.door->LetFollow(false);
  ASSERT_TRUE(IsAnswered(waits));
  EXPECT_THAT(waits.welcome.why, HasSubstr("the job stops"));
}

TEST_F(WorkerDoorKeepTest, ABlameCountsUntilTheWorkerHasFollowed) {
  std::optional<Worker> zero(Open(a_, 0));
  const Worker one = Open(a_, 1);
  KeepRound(8);
  EXPECT_TRUE(zero->Say(LinkVerb::kBlame, 3));
  EXPECT_TRUE(one.Say(LinkVerb::kBlame, 3));
  RunReady();
  Worker next = Ask(a_, Following(0));
  ASSERT_TRUE(IsAnswered(next));
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{0}), std::nullopt);
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{1}), Rank{3});
}

TEST_F(WorkerDoorKeepTest, NodesConnectInTheNextRoundAtTheSamePort) {
  KeepRound(8);
  Worker zero = Ask(a_, Following(0));
  Worker two = Ask(b_, Following(2));
  ASSERT_TRUE(IsAnswered(zero) && IsAnswered(two));
  EXPECT_TRUE(zero.Say(LinkVerb::kSeek, 2));
  EXPECT_TRUE(two.Say(LinkVerb::kSeek, 0));
  ASSERT_TRUE(RunUntil([&] { return !a_.asked.empty(); }));
  a_.door->Found({NodeRank{1}, "127.0.0.1", port_});
  EXPECT_EQ(Hear(zero).first.answer, LinkAnswer::kWelcome);
  EXPECT_EQ(Hear(two).first.answer, LinkAnswer::kWelcome);
}

}  // namespace
}  // namespace muster
