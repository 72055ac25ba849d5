// Groups of workers at their agents' doors, and pipes between two workers of a node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/io/worker_link_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGroup = 0x123456789abcdef0;
constexpr LinkChannel kMessages = LinkChannel::kMessages;

// The first node's ranks of a group that has rank 2, too.
std::vector<uint32_t> Three() { return {1, 0}; }

class WorkerDoorGroupTest : public WorkerDoorLinkTest {
 protected:
  static LinkHello OfThree(uint32_t rank, uint64_t group = kGroup) {
    LinkHello hello = Hello(rank);
    hello.group = group;
    hello.place = rank == 0 ? 1 : 0;
    hello.local_size = rank == 2 ? 1 : 2;
    hello.nodes = 2;
    hello.world_size = 3;
    return hello;
  }
  Worker Enter(uint32_t rank, uint64_t group = kGroup) {
    Worker out =
        rank == 2 ? Knock(b_, OfThree(2, group), {2}) : Knock(a_, OfThree(rank, group), Three());
    EXPECT_EQ(out.welcome.answer, LinkAnswer::kWelcome) << out.welcome.why;
    return out;
  }
  std::string Refused(const LinkHello& hello, const std::vector<uint32_t>& members) {
    const Worker out = Knock(a_, hello, members);
    EXPECT_EQ(out.welcome.answer, LinkAnswer::kRefused);
    EXPECT_FALSE(out.arena.valid());
    return out.welcome.why;
  }
  void ExpectEnd(const Worker& seen_by, uint32_t place, LineEnd how) {
    ASSERT_TRUE(RunUntil([&] { return EndOf(seen_by, place) != LineEnd::kNone; }));
    EXPECT_EQ(EndOf(seen_by, place), how);
  }
  // Both seek each other for messages; the pipe's two descriptors.
  std::pair<UniqueFd, UniqueFd> PipeOf(const Worker& one, uint32_t rank, const Worker& other,
                                       uint32_t other_rank) {
    EXPECT_TRUE(one.Say(LinkVerb::kSeek, other_rank, kMessages));
    RunReady();
    LinkPeer early;
    UniqueFd none;
    EXPECT_FALSE(one.Hear(&early, &none)) << "the other has not asked";
    EXPECT_TRUE(other.Say(LinkVerb::kSeek, rank, kMessages));
    auto first = Hear(one);
    auto second = Hear(other);
    EXPECT_EQ(first.first.rank, other_rank);
    EXPECT_EQ(second.first.rank, rank);
    EXPECT_EQ(first.first.channel, kMessages);
    EXPECT_EQ(second.first.channel, kMessages);
    return {std::move(first.second), std::move(second.second)};
  }
};

TEST_F(WorkerDoorGroupTest, AGroupHasAnArenaOfItsOwn) {
  const Worker zero = Enter(0);
  const Worker one = Enter(1);
  const Worker elsewhere = Enter(2);
  const Worker all = Open(a_, 0);
  const ArenaGeometry geometry = ArenaFor(2, 2, 3);
  for (const Worker* worker : {&zero, &one}) {
    const LinkWelcome& w = worker->welcome;
    EXPECT_EQ((ArenaGeometry{w.local_size, w.nodes, w.world_size, w.slot_bytes, w.result_bytes}),
              geometry);
    EXPECT_EQ(lseek(worker->arena.get(), 0, SEEK_END), static_cast<off_t>(geometry.Bytes()));
  }
  EXPECT_EQ(elsewhere.welcome.local_size, 1u);
  EXPECT_EQ(elsewhere.welcome.number, kGroup);
  EXPECT_EQ(zero.welcome.number, kGroup);
  EXPECT_EQ(all.welcome.number, 0u);
  EXPECT_EQ(Open(a_, 0).welcome.number, 1u);
  // One memory for the two, another one for all ranks of the round.
  const uint32_t word = 42;
  const auto at = static_cast<off_t>(geometry.SlotsAt());
  ASSERT_EQ(pwrite(zero.arena.get(), &word, sizeof(word), at), ssize_t{sizeof(word)});
  for (const auto& [worker, want] : {std::pair(&one, 42u), std::pair(&all, 0u)}) {
    uint32_t seen = 7;
    ASSERT_EQ(pread(worker->arena.get(), &seen, sizeof(seen), at), ssize_t{sizeof(seen)});
    EXPECT_EQ(seen, want);
  }
  std::vector<uint32_t> map(5, 7);
  EXPECT_EQ(pread(zero.arena.get(), map.data(), 20, static_cast<off_t>(geometry.MapAt())), 20);
  EXPECT_EQ(map, std::vector<uint32_t>(5, 0)) << "its ranks know it";
}

TEST_F(WorkerDoorGroupTest, EndsAreMarkedAtTheGroupsPlaces) {
  const Worker zero = Enter(0);
  {
    const Worker one = Enter(1);
    EXPECT_TRUE(one.Say(LinkVerb::kBye));
  }
  ExpectEnd(zero, 0, LineEnd::kClosed);
  // Rank 1 goes on: in another group, in which it dies.
  const Worker again = Enter(0, kGroup + 1);
  const Worker one = Enter(1, kGroup + 1);
  RunReady();
  EXPECT_EQ(EndOf(again, 0), LineEnd::kNone);
  a_.door->WorkerEnded(LocalRank{1});
  ExpectEnd(again, 0, LineEnd::kDied);
  EXPECT_EQ(EndOf(again, 1), LineEnd::kNone);
}

TEST_F(WorkerDoorGroupTest, WhoDiesBeforeItComesIsMarkedWheneverTheOthersCome) {
  const Worker before = Enter(0);
  a_.door->WorkerEnded(LocalRank{1});
  EXPECT_EQ(EndOf(before, 0), LineEnd::kDied);
  const Worker after = Enter(0, kGroup + 1);
  EXPECT_EQ(EndOf(after, 0), LineEnd::kDied);
  EXPECT_EQ(EndOf(after, 1), LineEnd::kNone);
  EXPECT_THAT(Refused(OfThree(1), Three()), HasSubstr("rank 1 of round"));
}

TEST_F(WorkerDoorGroupTest, AGroupThatAllHaveLeftIsOver) {
  {
    const Worker zero = Enter(0);
    EXPECT_EQ(Refused(OfThree(0), Three()), "rank 0 has been in group 123456789abcdef0 before");
  }
  RunReady();
  {
    const Worker late = Enter(1);  // it sees that rank 0 has come and gone
    EXPECT_NE(EndOf(late, 1), LineEnd::kNone);
    EXPECT_EQ(Refused(OfThree(0), Three()), "rank 0 has been in group 123456789abcdef0 before");
  }
  RunReady();
  EXPECT_EQ(Refused(OfThree(1), Three()),
            "group 123456789abcdef0 is over: all its ranks of this node have left it");
  // Not in the next round.
  a_.door->BeginRound(TwoEach(0, 3, 7));
  Enter(1);
}

TEST_F(WorkerDoorGroupTest, HellosThatMakeNoSenseAreRefusedWithTheReason) {
  LinkHello hello = OfThree(0);
  hello.local_size = 3;
  EXPECT_EQ(Refused(hello, Three()), "a group has 3 ranks on this node: want 1..2");
  EXPECT_THAT(Refused(OfThree(0), {}), HasSubstr("of 2 ranks on this node names 0"));
  EXPECT_THAT(Refused(OfThree(0), std::vector<uint32_t>(5000)), HasSubstr("names 4096"));
  EXPECT_THAT(Refused(OfThree(0), {0, 1}), HasSubstr("another rank than 0 at place 1"));
  hello = OfThree(2);
  EXPECT_THAT(Refused(hello, {2}), HasSubstr("rank 2 of round")) << "it is no worker here";
  // Nothing of that has opened it, nor does it after somebody has.
  const Worker one = Enter(1);
  hello = OfThree(0);
  hello.world_size = 4;
  EXPECT_EQ(Refused(hello, Three()),
            "rank 0 and one that came before it disagree on who is in group 123456789abcdef0");
  hello = OfThree(0);
  hello.place = 0;
  EXPECT_THAT(Refused(hello, {0, 1}), HasSubstr("disagree on who is in"));
  const Worker zero = Enter(0);
  EXPECT_EQ(EndOf(zero, 0), LineEnd::kNone);
  EXPECT_EQ(EndOf(one, 1), LineEnd::kNone);
}

TEST_F(WorkerDoorGroupTest, TooManyAtOnceAreRefused) {
  Make(a_, 2);
  a_.door->BeginRound(TwoEach(0, 3, 7));
  const Worker first = Enter(0);
  {
    const Worker second = Enter(0, kGroup + 1);
    EXPECT_EQ(Refused(OfThree(0, kGroup + 2), Three()),
              "the workers of this node have 2 groups open, which is the limit: close some before "
              "the next Split");
    Enter(1, kGroup + 1);  // it is open already
  }
  RunReady();
  Enter(0, kGroup + 2);
}

TEST_F(WorkerDoorGroupTest, ConnectionsAreKeptApartByGroupAndChannel) {
  struct Side {
    Worker worker;
    std::vector<std::pair<LinkChannel, UniqueFd>> got;
  };
  const auto seek = [](const Side& side, uint32_t rank) {
    for (const LinkChannel channel : {LinkChannel::kCollectives, kMessages}) {
      EXPECT_TRUE(side.worker.Say(LinkVerb::kSeek, rank, channel));
    }
  };
  std::vector<Side> zeros(3);
  std::vector<Side> twos(3);
  zeros[0].worker = Open(a_, 0);
  twos[0].worker = Open(b_, 2);
  for (uint32_t i = 1; i < 3; ++i) {
    zeros[i].worker = Enter(0, kGroup + i);
    twos[i].worker = Enter(2, kGroup + i);
  }
  for (uint32_t i = 0; i < 3; ++i) {
    seek(zeros[i], 2);
    seek(twos[2 - i], 0);
  }
  ASSERT_TRUE(RunUntil([&] { return !a_.asked.empty(); }));
  a_.door->Found({NodeRank{1}, "127.0.0.1", port_});
  for (uint32_t i = 0; i < 3; ++i) {
    for (Side* side : {&zeros[i], &twos[i]}) {
      for (int n = 0; n < 2; ++n) {
        auto [peer, socket] = Hear(side->worker);
        side->got.emplace_back(peer.channel, std::move(socket));
      }
    }
    for (const auto& [channel, socket] : zeros[i].got) {
      Say(socket, absl::StrCat(i, static_cast<int>(channel)));
    }
    for (const auto& [channel, socket] : twos[i].got) {
      EXPECT_EQ(ReadBytes(socket.get(), 2), absl::StrCat(i, static_cast<int>(channel)));
    }
  }
}

TEST_F(WorkerDoorGroupTest, AGroupThatIsLeftIsNotReachedFromOtherNodes) {
  { const Worker two = Enter(2); }
  RunReady();
  const Worker zero = Enter(0);
  EXPECT_TRUE(zero.Say(LinkVerb::kSeek, 2));
  ASSERT_TRUE(RunUntil([&] { return !a_.asked.empty(); }));
  a_.door->Found({NodeRank{1}, "127.0.0.1", port_});
  EXPECT_THAT(Hear(zero).first.why, HasSubstr("it closed the connection"));
}

TEST_F(WorkerDoorGroupTest, TwoOfANodeThatSeekEachOtherForMessagesGetOnePipe) {
  const Worker zero = Open(a_, 0);
  const Worker one = Open(a_, 1);
  const auto [mine, theirs] = PipeOf(zero, 0, one, 1);
  EXPECT_EQ(lseek(mine.get(), 0, SEEK_END), static_cast<off_t>(sizeof(Pipe)));
  EXPECT_NE(ftruncate(mine.get(), 0), 0) << "it is sealed";
  void* memory = mmap(nullptr, sizeof(Pipe), PROT_READ | PROT_WRITE, MAP_SHARED, mine.get(), 0);
  void* other = mmap(nullptr, sizeof(Pipe), PROT_READ | PROT_WRITE, MAP_SHARED, theirs.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_EQ(static_cast<Pipe*>(other)->sides[1].written, 0u);
  static_cast<Pipe*>(memory)->sides[1].written = 42;
  EXPECT_EQ(static_cast<Pipe*>(other)->sides[1].written, 42u);
  munmap(memory, sizeof(Pipe));
  munmap(other, sizeof(Pipe));
  // A group's is another one.
  const Worker zero_too = Enter(0);
  const Worker one_too = Enter(1);
  const auto [first, second] = PipeOf(one_too, 1, zero_too, 0);
  uint64_t written = 7;
  EXPECT_EQ(pread(first.get(), &written, sizeof(written), sizeof(PipeSide)),
            ssize_t{sizeof(written)});
  EXPECT_EQ(written, 0u);
}

TEST_F(WorkerDoorGroupTest, PipesThatMakeNoSenseAreRefused) {
  const Worker zero = Open(a_, 0);
  EXPECT_EQ(Refusal(zero, 0, kMessages), "rank 0 is this worker itself");
  EXPECT_EQ(Refusal(zero, 6, kMessages), "rank 6 is none of this round's 6");
  EXPECT_EQ(Refusal(zero, 1, static_cast<LinkChannel>(7)),
            "rank 1 is sought for channel 7, which the agent does not know");
  EXPECT_TRUE(zero.Say(LinkVerb::kSeek, 1, kMessages));
  EXPECT_EQ(Refusal(zero, 1, kMessages), "rank 1 has been sought on this communicator already");
  EXPECT_THAT(Refusal(zero, 1), HasSubstr("reached through memory"));
  LinkHello alone = OfThree(0);
  alone.place = 0;
  alone.local_size = 1;
  const Worker group = Knock(a_, alone, {0});
  EXPECT_EQ(Refusal(group, 1, kMessages), "rank 1 is none of this communicator's");
}

TEST_F(WorkerDoorGroupTest, WhoSeeksAPipeWithOneThatIsGoneIsTold) {
  const Worker zero = Enter(0);
  {
    const Worker one = Enter(1);
    EXPECT_TRUE(zero.Say(LinkVerb::kSeek, 1, kMessages));
    RunReady();
    EXPECT_TRUE(one.Say(LinkVerb::kBye));
  }
  EXPECT_STREQ(Hear(zero).first.why, "rank 1 has closed its communicator");
  // And afterwards.
  const Worker more = Enter(0, kGroup + 1);
  { const Worker one = Enter(1, kGroup + 1); }
  ExpectEnd(more, 0, LineEnd::kDied);
  EXPECT_EQ(Refusal(more, 1, kMessages), "rank 1 has died");
  // One that never comes; who has met it already needs no word.
  const Worker met = Enter(0, kGroup + 2);
  const Worker one = Enter(1, kGroup + 2);
  PipeOf(met, 0, one, 1);
  const Worker last = Enter(0, kGroup + 3);
  EXPECT_TRUE(last.Say(LinkVerb::kSeek, 1, kMessages));
  RunReady();
  a_.door->WorkerEnded(LocalRank{1});
  EXPECT_STREQ(Hear(last).first.why, "rank 1 has died");
  LinkPeer peer;
  UniqueFd fd;
  EXPECT_FALSE(met.Hear(&peer, &fd));
}

TEST_F(WorkerDoorGroupTest, WhoIsGoneItselfDoesNotDisturbThoseThatItSought) {
  {
    const Worker zero = Open(a_, 0);
    EXPECT_TRUE(zero.Say(LinkVerb::kSeek, 1, kMessages));
  }
  const Worker one = Open(a_, 1);
  RunReady();
  EXPECT_EQ(Refusal(one, 0, kMessages), "rank 0 has died");
  // Both at once: each is the other's last hope.
  {
    const Worker zero = Open(a_, 0);
    const Worker other = Open(a_, 1);
    EXPECT_TRUE(zero.Say(LinkVerb::kSeek, 1, kMessages));
  }
  RunReady();
  Open(a_, 0);
}

}  // namespace
}  // namespace muster
