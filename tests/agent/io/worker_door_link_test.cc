// The agent's side of the link, word by word, and two nodes' doors that bring workers together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/io/worker_link_fixture.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(WorkerDoorLinkTest, TheWelcomeTellsTheArenaAndTheArenaWhereEverybodyIs) {
  const Worker worker = Open(b_, 3);
  const LinkWelcome& w = worker.welcome;
  const ArenaGeometry geometry = ArenaFor(2, 3, 6);
  EXPECT_EQ(w.cpus, 4u);
  EXPECT_EQ(w.local_size, 2u);
  EXPECT_EQ(w.nodes, 3u);
  EXPECT_EQ(w.world_size, 6u);
  EXPECT_EQ(w.slot_bytes, geometry.slot_bytes);
  EXPECT_EQ(w.result_bytes, geometry.result_bytes);
  EXPECT_EQ(lseek(worker.arena.get(), 0, SEEK_END), static_cast<off_t>(geometry.Bytes()));
  std::vector<uint32_t> map(9);
  EXPECT_EQ(pread(worker.arena.get(), map.data(), 36, static_cast<off_t>(geometry.MapAt())), 36);
  EXPECT_THAT(map, ElementsAre(2, 2, 2, 0, 1, 2, 3, 4, 5));
}

TEST_F(WorkerDoorLinkTest, RanksThatWereAskedForAreInTheMap) {
  Assignment a = TwoEach(0, 2, 7);
  a.ranks = {3, 0};
  a.ranks_by_node = {3, 0, 2, 1};
  a_.door->BeginRound(a);
  const Worker worker = Open(a_, 3);
  std::vector<uint32_t> map(6);
  EXPECT_EQ(
      pread(worker.arena.get(), map.data(), 24, static_cast<off_t>(ArenaFor(2, 2, 4).MapAt())), 24);
  EXPECT_THAT(map, ElementsAre(2, 2, 0, 3, 1, 2));
  EXPECT_THAT(Refusal(worker, 0), HasSubstr("runs on this node"));
}

TEST_F(WorkerDoorLinkTest, WorkersOfTwoNodesGetTheTwoEndsOfOneConnection) {
  const Worker zero = Open(a_, 0);
  const Worker one = Open(a_, 1);
  const Worker two = Open(b_, 2);
  // Several words in a row; the third node is not found, and delays nobody.
  for (const uint32_t rank : {4u, 2u, 3u}) {
    EXPECT_TRUE(zero.Say(LinkVerb::kSeek, rank));
  }
  EXPECT_TRUE(one.Say(LinkVerb::kSeek, 2));
  EXPECT_TRUE(two.Say(LinkVerb::kSeek, 1));
  EXPECT_TRUE(two.Say(LinkVerb::kSeek, 0));
  ASSERT_TRUE(RunUntil([&] { return a_.asked.size() == 2; }));
  EXPECT_THAT(a_.asked, ElementsAre(NodeRank{2}, NodeRank{1}));
  EXPECT_TRUE(b_.asked.empty());
  a_.door->Found({NodeRank{1}, "127.0.0.1", port_});
  std::vector<UniqueFd> of_zero(6);
  for (int i = 0; i < 2; ++i) {
    auto [peer, socket] = Hear(zero);
    EXPECT_EQ(peer.answer, LinkAnswer::kWelcome) << peer.why;
    of_zero.at(peer.rank) = std::move(socket);
  }
  const auto of_one = Hear(one);
  EXPECT_EQ(of_one.first.rank, 2u);
  std::vector<UniqueFd> of_two(6);
  for (int i = 0; i < 2; ++i) {
    auto [peer, socket] = Hear(two);
    of_two.at(peer.rank) = std::move(socket);
  }
  Say(of_zero[2], "0 to 2");
  EXPECT_EQ(ReadBytes(of_two[0].get(), 6), "0 to 2");
  Say(of_two[1], "2 to 1");
  EXPECT_EQ(ReadBytes(of_one.second.get(), 6), "2 to 1");
  // Rank 3 comes later, and finds what was said to it meanwhile.
  Say(of_zero[3], "0 to 3");
  const Worker three = Open(b_, 3);
  EXPECT_TRUE(three.Say(LinkVerb::kSeek, 0));
  EXPECT_EQ(ReadBytes(Hear(three).second.get(), 6), "0 to 3");
}

TEST_F(WorkerDoorLinkTest, NthCommunicatorsBelongTogether) {
  const Worker first = Open(a_, 0);
  const Worker second = Open(a_, 0);
  const Worker other = Open(b_, 2);
  const Worker another = Open(b_, 2);
  EXPECT_TRUE(second.Say(LinkVerb::kSeek, 2));
  a_.door->Found({NodeRank{1}, "127.0.0.1", port_});
  EXPECT_TRUE(first.Say(LinkVerb::kSeek, 2));
  EXPECT_TRUE(another.Say(LinkVerb::kSeek, 0));
  EXPECT_TRUE(other.Say(LinkVerb::kSeek, 0));
  ASSERT_TRUE(RunUntil([&] { return !a_.asked.empty(); }));
  a_.door->Found({NodeRank{1}, "127.0.0.1", port_});
  const auto one = Hear(first);
  const auto two = Hear(second);
  Say(one.second, "first");
  Say(two.second, "other");
  EXPECT_EQ(ReadBytes(Hear(other).second.get(), 5), "first");
  EXPECT_EQ(ReadBytes(Hear(another).second.get(), 5), "other");
}

TEST_F(WorkerDoorLinkTest, SeeksThatMakeNoSenseAreRefusedWithTheReason) {
  const Worker worker = Open(a_, 0);
  EXPECT_EQ(Refusal(worker, 1), "rank 1 runs on this node: it is reached through memory");
  EXPECT_EQ(Refusal(worker, 0), "rank 0 runs on this node: it is reached through memory");
  EXPECT_EQ(Refusal(worker, 6), "rank 6 is none of this round's 6");
  EXPECT_TRUE(worker.Say(LinkVerb::kSeek, 2));
  EXPECT_EQ(Refusal(worker, 2), "rank 2 has been sought on this communicator already");
}

TEST_F(WorkerDoorLinkTest, ANodeThatCannotBeReachedIsSaid) {
  b_.door->EndRound();  // nobody listens
  const Worker worker = Open(a_, 0);
  EXPECT_TRUE(worker.Say(LinkVerb::kSeek, 2));
  ASSERT_TRUE(RunUntil([&] { return !a_.asked.empty(); }));
  a_.door->Found({NodeRank{1}, "127.0.0.1", port_});
  const LinkPeer peer = Hear(worker).first;
  EXPECT_EQ(peer.answer, LinkAnswer::kRefused);
  EXPECT_EQ(std::string(peer.why),
            absl::StrCat("no connection to rank 2 of node 1 at 127.0.0.1:", port_,
                         ": 127.0.0.1: Connection refused; is a firewall in between? See "
                         "--port-range and --iface"));
}

TEST_F(WorkerDoorLinkTest, AGoodbyeIsNoDeathAndNonsenseIs) {
  const Worker watcher = Open(a_, 1);
  {
    const Worker worker = Open(a_, 0);
    EXPECT_TRUE(worker.Say(LinkVerb::kBye));
    ASSERT_TRUE(RunUntil([&] { return EndOf(watcher, 0) != LineEnd::kNone; }));
    EXPECT_EQ(EndOf(watcher, 0), LineEnd::kClosed);
  }
  const Worker next = Open(a_, 1);
  const Worker worker = Open(a_, 0);
  EXPECT_TRUE(worker.Say(static_cast<LinkVerb>(77)));
  ASSERT_TRUE(RunUntil([&] { return EndOf(next, 0) != LineEnd::kNone; }));
  EXPECT_EQ(EndOf(next, 0), LineEnd::kDied);
}

TEST_F(WorkerDoorLinkTest, WhomAWorkerBlamesFirstIsKeptUntilItEnds) {
  {
    const Worker worker = Open(a_, 0);
    EXPECT_TRUE(worker.Say(LinkVerb::kBlame, 3));
    EXPECT_TRUE(worker.Say(LinkVerb::kBlame, 2));
    EXPECT_TRUE(worker.Say(LinkVerb::kBye));
    ASSERT_TRUE(RunUntil([&] { return Closed(worker.link); }));
  }
  const Worker next = Open(a_, 0);
  EXPECT_TRUE(next.Say(LinkVerb::kBlame, 1));
  RunReady();
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{0}), Rank{3});
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{1}), std::nullopt);
  a_.door->BeginRound(TwoEach(0, 3, 8));
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{0}), std::nullopt);
}

// The shepherd may tell of its end before the loop has looked at its link.
TEST_F(WorkerDoorLinkTest, WhoSaysThatItFailsItselfIsAwaited) {
  const Worker zero = Open(a_, 0);
  const Worker one = Open(a_, 1);
  EXPECT_FALSE(a_.door->IsAnyFailing());
  EXPECT_TRUE(zero.Say(LinkVerb::kBlame, 1));
  EXPECT_TRUE(one.Say(LinkVerb::kBlame, 1));
  EXPECT_TRUE(RunUntil([&] { return a_.door->IsAnyFailing(); }));
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{0}), Rank{1});
  EXPECT_TRUE(a_.door->IsAnyFailing());
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{1}), std::nullopt);
  EXPECT_FALSE(a_.door->IsAnyFailing());
}

TEST_F(WorkerDoorLinkTest, ABlameCountsThatNobodyHasReadYet) {
  const Worker zero = Open(a_, 0);
  const Worker one = Open(a_, 1);
  EXPECT_TRUE(zero.Say(LinkVerb::kSeek, 4));
  EXPECT_TRUE(zero.Say(LinkVerb::kBlame, 5));
  EXPECT_TRUE(one.Say(LinkVerb::kBlame, 6));  // there is none
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{0}), Rank{5});
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{1}), std::nullopt);
}

TEST_F(WorkerDoorLinkTest, ABlameThatMakesNoSenseEndsTheLink) {
  for (const uint32_t rank : {6u, ~0u}) {  // none of the round
    const Worker watcher = Open(a_, 1);
    const Worker worker = Open(a_, 0);
    EXPECT_TRUE(worker.Say(LinkVerb::kBlame, rank));
    ASSERT_TRUE(RunUntil([&] { return EndOf(watcher, 0) != LineEnd::kNone; })) << rank;
    EXPECT_EQ(EndOf(watcher, 0), LineEnd::kDied);
  }
  EXPECT_EQ(a_.door->WorkerEnded(LocalRank{0}), std::nullopt);
}

TEST_F(WorkerDoorLinkTest, WhatADeadWorkerWouldHaveGotIsClosed) {
  const Worker zero = Open(a_, 0);
  const Worker two = Open(b_, 2);
  for (const uint32_t rank : {2u, 3u}) {
    EXPECT_TRUE(zero.Say(LinkVerb::kSeek, rank));
  }
  ASSERT_TRUE(RunUntil([&] { return !a_.asked.empty(); }));
  a_.door->Found({NodeRank{1}, "127.0.0.1", port_});
  const auto one = Hear(zero);
  const auto other = Hear(zero);
  EXPECT_FALSE(Closed(one.second));
  RunReady();
  b_.door->WorkerEnded(LocalRank{0});
  b_.door->WorkerEnded(LocalRank{1});  // never opened its communicator
  EXPECT_TRUE(RunUntil([&] { return Closed(one.second) && Closed(other.second); }));
  // And a worker that seeks it afterwards is told in the end.
  const Worker first = Open(a_, 1);
  EXPECT_TRUE(first.Say(LinkVerb::kSeek, 3));
  const LinkPeer peer = Hear(first).first;
  EXPECT_EQ(peer.answer, LinkAnswer::kRefused);
  EXPECT_THAT(peer.why, HasSubstr("it closed the connection"));
}

TEST_F(WorkerDoorLinkTest, AWorkerThatDoesNotListenIsWaitedForAndNothingIsLost) {
  const Worker worker = Open(a_, 0);
  constexpr uint32_t kWords = 3000;
  uint32_t said = 0;
  uint32_t heard = 0;
  const auto say = [&] {
    while (said < kWords && worker.Say(LinkVerb::kSeek, 100 + said)) {
      ++said;
    }
  };
  // Until both directions are full.
  for (uint32_t before = 0; said > before || before == 0; RunReady()) {
    before = said;
    say();
  }
  EXPECT_LT(said, kWords);
  EXPECT_TRUE(RunUntil([&] {
    LinkPeer peer;
    UniqueFd socket;
    while (worker.Hear(&peer, &socket)) {
      EXPECT_EQ(peer.rank, 100 + heard);
      ++heard;
    }
    say();
    return heard == kWords;
  }));
  EXPECT_TRUE(worker.Say(LinkVerb::kBye));
}

TEST_F(WorkerDoorLinkTest, AnEndedRoundLetsNobodyIn) {
  const Worker worker = Open(a_, 0);
  a_.door->EndRound();
  a_.door->WorkerEnded(LocalRank{1});  // late: it was stuck in the kernel
  EXPECT_TRUE(RunUntil([&] { return Closed(worker.link); }));
}

}  // namespace
}  // namespace muster
