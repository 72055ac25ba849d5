#include "worker_sdk/bootstrap/rank_door.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>

namespace muster {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Taken = std::optional<StatusOr<UniqueFd>>;

constexpr auto kMessages = LinkChannel::kMessages;

class RankDoorTest : public testing::Test {
 protected:
  void Open(uint32_t ranks, const std::vector<std::string>& addresses = {"127.0.0.1"}) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      doors.push_back(*RankDoor::Open());
      doors.back()->Describe(addresses, roster.cards.emplace_back());
    }
  }
  void Start() {
    for (uint32_t rank = 0; rank < doors.size(); ++rank) {
      ASSERT_TRUE(doors[rank]->Start(roster, rank).ok());
    }
  }
  StatusOr<UniqueFd> Take(uint32_t rank, uint32_t other, LinkChannel channel = kMessages) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      if (Taken taken = doors[rank]->Take(other, channel); taken.has_value()) {
        return *std::move(taken);
      }
      doors[rank]->Await(milliseconds(10));
    }
    return Status(StatusCode::kDeadlineExceeded, "nothing came");
  }
  UniqueFd Dial(uint32_t rank) const {
    UniqueFd out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(roster.cards[rank].port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(out.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return out;
  }
  // As `from` says it to `to`.
  Knock KnockOf(uint32_t from, uint32_t to) const {
    Knock out;
    out.number = roster.number;
    out.token[0] = roster.cards[to].token[0];
    out.token[1] = roster.cards[to].token[1];
    out.from = from;
    out.channel = static_cast<uint32_t>(kMessages);
    return out;
  }
  // 0: it is closed.
  static ssize_t Answer(const UniqueFd& fd, const void* bytes, size_t count) {
    EXPECT_EQ(write(fd.get(), bytes, count), static_cast<ssize_t>(count));
    pollfd one = {fd.get(), POLLIN, 0};
    EXPECT_EQ(poll(&one, 1, 30'000), 1);
    Knock answer;
    const ssize_t got = recv(fd.get(), &answer, sizeof(answer), 0);
    return got < 0 && errno == ECONNRESET ? 0 : got;
  }
  // One says it to the other.
  static void ExpectConnected(const UniqueFd& one, const UniqueFd& other) {
    ASSERT_EQ(write(one.get(), "x", 1), 1);
    pollfd poll_one = {other.get(), POLLIN, 0};
    ASSERT_EQ(poll(&poll_one, 1, 30'000), 1);
    char byte = 0;
    EXPECT_EQ(read(other.get(), &byte, 1), 1);
    EXPECT_EQ(byte, 'x');
  }

  // Both seek each other, and what one says the other hears.
  void ExpectThatTheyMeet(uint32_t lower, uint32_t higher, LinkChannel channel = kMessages) {
    doors[higher]->Seek(lower, channel);
    doors[lower]->Seek(higher, channel);
    StatusOr<UniqueFd> here = Take(lower, higher, channel);
    StatusOr<UniqueFd> there = Take(higher, lower, channel);
    ASSERT_TRUE(here.ok() && there.ok());
    ExpectConnected(*here, *there);
    ExpectConnected(*there, *here);
  }

  Roster roster = {7, {}};
  std::vector<std::unique_ptr<RankDoor>> doors;
};

TEST_F(RankDoorTest, TwoThatSeekEachOtherAreConnectedOnceAChannel) {
  Open(2);
  Start();
  for (const auto channel : {kMessages, LinkChannel::kCollectives}) {
    ExpectThatTheyMeet(0, 1, channel);
    EXPECT_FALSE(doors[0]->Take(1, channel).has_value()) << "once";
  }
}

TEST_F(RankDoorTest, AllWithAll) {
  Open(5);
  Start();
  for (uint32_t rank = 0; rank < 5; ++rank) {
    for (uint32_t other = 0; other < 5; ++other) {
      if (other != rank) {
        doors[rank]->Seek(other, kMessages);
      }
    }
  }
  for (uint32_t lower = 0; lower < 5; ++lower) {
    for (uint32_t higher = lower + 1; higher < 5; ++higher) {
      StatusOr<UniqueFd> a = Take(lower, higher);
      StatusOr<UniqueFd> b = Take(higher, lower);
      ASSERT_TRUE(a.ok() && b.ok());
      ExpectConnected(*a, *b);
    }
  }
}

TEST_F(RankDoorTest, AnAddressThatLeadsNowhereIsPassedOver) {
  Open(2, {"192.0.2.1", "not an address", "127.0.0.1"});  // the first one is for documentation
  Start();
  ExpectThatTheyMeet(0, 1);
}

TEST_F(RankDoorTest, WhoAnswersWithAnotherWordIsNotBelieved) {
  Open(2);
  const UniqueFd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(listen(other.get(), 8), 0);
  ASSERT_EQ(getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  roster.cards[0].port = ntohs(address.sin_port);
  Start();
  doors[1]->Seek(0, kMessages);
  for (int tries = 0; tries < 3; ++tries) {
    const UniqueFd fd(accept4(other.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Knock knock;  // what it says itself, sent back
    ASSERT_EQ(recv(fd.get(), &knock, sizeof(knock), MSG_WAITALL),
              static_cast<ssize_t>(sizeof(knock)));
    ASSERT_EQ(write(fd.get(), &knock, sizeof(knock)), static_cast<ssize_t>(sizeof(knock)));
    pollfd one = {fd.get(), POLLIN, 0};
    EXPECT_EQ(poll(&one, 1, 30'000), 1);
  }
  EXPECT_THAT(Take(1, 0).status().message(), HasSubstr("somebody else answers there"));
}

TEST_F(RankDoorTest, WhoIsNotThereAnyMoreIsNamed) {
  Open(3);
  Start();
  doors[0].reset();  // the lower one, whom rank 1 calls; before that, or it may answer yet
  doors[2].reset();  // the higher one, which never calls
  doors[1]->Seek(2, kMessages);
  doors[1]->Seek(0, kMessages);
  const Status lower = Take(1, 0).status();
  EXPECT_EQ(lower.code(), StatusCode::kUnavailable);
  EXPECT_EQ(lower.peer(), 0);
  const Status higher = Take(1, 2).status();
  EXPECT_EQ(higher.code(), StatusCode::kUnavailable);
  EXPECT_EQ(higher.peer(), 2);
}

TEST_F(RankDoorTest, WhoEndsBeforeItCallsIsNamed) {
  Open(2);
  Start();
  doors[0]->Seek(1, kMessages);
  EXPECT_FALSE(doors[0]->Await(milliseconds(300)));
  doors[1].reset();
  EXPECT_THAT(Take(0, 1).status().ToString(), HasSubstr("UNAVAILABLE: rank 1 "));
}

TEST_F(RankDoorTest, WhatWasSentByOneThatHasEndedStillComes) {
  Open(2);
  Start();
  doors[0]->Seek(1, kMessages);
  doors[1]->Seek(0, kMessages);
  {
    StatusOr<UniqueFd> higher = Take(1, 0);
    ASSERT_TRUE(higher.ok());
    ASSERT_EQ(write(higher->get(), "x", 1), 1);
  }
  doors[1].reset();
  StatusOr<UniqueFd> lower = Take(0, 1);
  ASSERT_TRUE(lower.ok()) << lower.status().message();
  char byte = 0;
  pollfd one = {lower->get(), POLLIN, 0};
  ASSERT_EQ(poll(&one, 1, 30'000), 1);
  EXPECT_EQ(read(lower->get(), &byte, 1), 1);
}

TEST_F(RankDoorTest, EveryFieldOfAKnockCounts) {
  Open(3);
  Start();
  const std::vector<std::function<void(Knock&)>> changes = {
      [](Knock& knock) { knock.magic += 1; },
      [](Knock& knock) { knock.version += 1; },
      [](Knock& knock) { knock.number += 1; },
      [](Knock& knock) { knock.token[0] ^= 1; },
      [](Knock& knock) { knock.token[1] ^= 1 << 9; },
      [](Knock& knock) { knock.from = 0; },
      [](Knock& knock) { knock.from = 1; },
      [](Knock& knock) { knock.from = 3; },
      [](Knock& knock) { knock.channel = 2; },
      [](Knock& knock) { knock.channel = Knock::kLookout; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    Knock knock = KnockOf(2, 1);
    changes[i](knock);
    EXPECT_EQ(Answer(Dial(1), &knock, sizeof(knock)), 0) << i;
  }
  const Knock good = KnockOf(2, 1);
  EXPECT_EQ(Answer(Dial(1), &good, sizeof(good)), static_cast<ssize_t>(sizeof(good)));
  EXPECT_FALSE(doors[1]->Take(2, kMessages).has_value()) << "it has not gone on with that one";
}

TEST_F(RankDoorTest, StrangersPushOutEachOtherAndNobodyElse) {
  Open(2);
  Start();
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < 2 * RankDoor::kStrangersMax; ++i) {
    strangers.push_back(Dial(0));
  }
  ExpectThatTheyMeet(0, 1);
  pollfd oldest = {strangers.front().get(), POLLIN, 0};
  EXPECT_EQ(poll(&oldest, 1, 30'000), 1) << "it was closed";
}

TEST_F(RankDoorTest, WhoSaysNothingIsLetGo) {
  Open(1);
  Start();
  const UniqueFd stranger = Dial(0);
  ASSERT_EQ(write(stranger.get(), "MC", 2), 2);
  pollfd one = {stranger.get(), POLLIN, 0};
  EXPECT_EQ(poll(&one, 1, 2 * std::chrono::milliseconds(RankDoor::kProofWithin).count()), 1);
}

}  // namespace
}  // namespace muster
