// Doors of two nodes on one loop, over loopback; and strangers.
#include "agent/io/peer_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/torch_store_port.h"
#include "proto/base/worker_link.h"
#include "proto/wire/secret.h"
#include "tests/agent/io/peer_doors_test.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST_F(PeerDoorTest, WorkersOfTwoNodesMeetWhoeverSeeksFirst) {
  BeginBoth();
  const PeerPair at_a = {0, 0, 2};
  const PeerPair at_b = {0, 2, 0};
  a_.Seek(at_a);
  EXPECT_EQ(a_.asked, (std::vector<NodeRank>{{1}}));
  EXPECT_FALSE(a_.Has(at_a));
  a_.door->Found(B());
  ASSERT_TRUE(RunUntil([&] { return b_.door->held() == 1; }));
  ASSERT_TRUE(RunUntil([&] { return a_.Has(at_a); }));
  Say(a_.Socket(at_a), "early");  // it belongs to the workers already
  b_.Seek(at_b);
  ASSERT_TRUE(b_.Has(at_b));
  EXPECT_EQ(ReadBytes(b_.Socket(at_b).get(), 5), "early");
  ExpectTogether(a_.Socket(at_a), b_.Socket(at_b));
  for (const UniqueFd* fd : {&a_.Socket(at_a), &b_.Socket(at_b)}) {
    int on = 0;
    socklen_t size = sizeof(on);
    EXPECT_EQ(getsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
    EXPECT_NE(on, 0);
    EXPECT_EQ(getsockopt(fd->get(), SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
    EXPECT_NE(on, 0);
  }
  // The other way round, and without asking again.
  b_.Seek({0, 3, 1});
  a_.Seek({0, 1, 3});
  ASSERT_TRUE(RunUntil([&] { return a_.Has({0, 1, 3}) && b_.Has({0, 3, 1}); }));
  ExpectTogether(a_.Socket({0, 1, 3}), b_.Socket({0, 3, 1}));
  EXPECT_EQ(a_.asked.size(), 1u);
  EXPECT_TRUE(b_.asked.empty());
  EXPECT_EQ(b_.door->held() + b_.door->unproven(), 0u);
}

TEST_F(PeerDoorTest, ChannelsAndGroupsAreKeptApart) {
  BeginBoth();
  constexpr uint64_t kGroup = uint64_t{1} << 63 | 5;  // its lower half is that of another one
  const std::vector<PeerPair> pairs = {{5, 0, 2},
                                       {5, 0, 2, LinkChannel::kMessages},
                                       {kGroup, 0, 2},
                                       {kGroup, 0, 2, LinkChannel::kMessages}};
  const auto other = [](const PeerPair& pair) {
    return PeerPair{pair.communicator, pair.theirs, pair.mine, pair.channel};
  };
  for (size_t i = 0; i < pairs.size(); ++i) {
    a_.Seek(pairs[i]);
    b_.Seek(other(pairs[pairs.size() - 1 - i]));
  }
  a_.door->Found(B());
  ASSERT_TRUE(RunUntil([&] { return a_.results.size() == 4 && b_.results.size() == 4; }));
  for (size_t i = 0; i < pairs.size(); ++i) {
    Say(a_.Socket(pairs[i]), std::to_string(i));
    EXPECT_EQ(ReadBytes(b_.Socket(other(pairs[i])).get(), 1), std::to_string(i));
  }
  // A communicator is forgotten with all its channels.
  a_.Seek({6, 1, 2});
  a_.Seek({6, 1, 2, LinkChannel::kMessages});
  a_.Seek({7, 1, 2});
  a_.door->Forget(6, Rank{1});
  b_.Seek({6, 2, 1});
  b_.Seek({7, 2, 1});
  ASSERT_TRUE(RunUntil([&] { return a_.Has({7, 1, 2}) && b_.Has({7, 2, 1}); }));
  EXPECT_EQ(a_.results.size(), 5u);
  EXPECT_EQ(b_.results.size(), 5u);
}

TEST_F(PeerDoorTest, WithoutASecretToo) {
  Make(a_, {"", "job", {}});
  Make(b_, {"", "job", {}});
  BeginBoth();
  ExpectMeeting(0, 0, 2);
}

TEST_F(PeerDoorTest, EachGetsItsOwnOfManyAtOnce) {
  BeginBoth();
  a_.door->Found(B());  // nobody has sought it: it changes nothing
  ExpectAllOf(100);
  EXPECT_EQ(a_.asked.size(), 1u);
}

// Some are dropped in the middle of it, for they cannot know that there is no place for them.
TEST_F(PeerDoorTest, EachGetsItsOwnThoughMostAreDroppedAndTriedAgain) {
  PeerOptions options = {"geheim", "job", {}};
  options.times.retry_min = options.times.retry_max = absl::Milliseconds(1);
  Make(a_, options);
  options.times.prove_soon = absl::ZeroDuration();
  options.unproven_max = 3;
  Make(b_, options);
  BeginBoth();
  ExpectAllOf(20);
}

TEST_F(PeerDoorTest, P1AnotherSecretIsRefusedAndSaid) {
  Make(a_, {"another", "job", {}});
  BeginBoth();
  a_.Seek({0, 0, 2});
  b_.Seek({0, 2, 0});
  a_.door->Found(B());
  ASSERT_TRUE(RunUntil([&] { return a_.Has({0, 0, 2}); }));
  EXPECT_EQ(a_.Refusal({0, 0, 2}),
            absl::StrCat("no connection to rank 2 of node 1 at 127.0.0.1:", port_,
                         ": it does not know this job's secret, or is of another job"));
  ASSERT_TRUE(RunUntil([&] { return b_.door->unproven() == 0; }));
  EXPECT_EQ(b_.door->held(), 0u);
  EXPECT_FALSE(b_.Has({0, 2, 0}));
}

TEST_F(PeerDoorTest, P1StrangersAreDroppedAndDisturbNobody) {
  BeginBoth();
  const UniqueFd silent = ConnectTo(port_);
  const UniqueFd garbage = ConnectTo(port_);
  Say(garbage, "GET / HTTP/1.1\r\n\r\n");
  const std::string hello = PeerHandshake::Connector(Secrets("geheim"), Hello()).TakeOutput();
  const UniqueFd half = ConnectTo(port_);
  Say(half, hello.substr(0, 40));
  const UniqueFd past = ConnectTo(port_);
  Say(past, PeerHandshake::Connector(Secrets("geheim"), Hello(kRound - 1)).TakeOutput());
  std::vector<UniqueFd> wrong;
  for (const auto& [from, to] :
       std::vector<std::pair<uint32_t, uint32_t>>{{2, 3}, {0, 1}, {0, 4}, {9, 2}, {3, 0}}) {
    const PeerHello one = {RoundId{1, kRound}.Token(), 0, from, to};
    wrong.push_back(ConnectTo(port_));
    Say(wrong.back(), PeerHandshake::Connector(Secrets("geheim"), one).TakeOutput());
  }
  // One that is right, then all that it said once more.
  const UniqueFd right = ConnectTo(port_);
  const auto said = Prove(right, {RoundId{1, kRound}.Token(), 5, 0, 2});
  const UniqueFd replay = ConnectTo(port_);
  Say(replay, said.first + said.second);
  for (const UniqueFd* fd : {&garbage, &past, &replay}) {
    EXPECT_TRUE(RunUntilClosed(*fd));
  }
  for (const UniqueFd& fd : wrong) {
    EXPECT_TRUE(RunUntilClosed(fd));
  }
  EXPECT_EQ(b_.door->held(), 1u);
  EXPECT_EQ(b_.door->unproven(), 2u);  // silent, half
  ExpectMeeting(0, 0, 2);
  EXPECT_FALSE(Closed(silent));
  EXPECT_FALSE(Closed(half));
  // The other half comes late, but in time.
  Say(half, hello.substr(40));
  b_.Seek({5, 2, 0});
  EXPECT_TRUE(b_.Has({5, 2, 0}));
  EXPECT_EQ(ReadBytes(right.get(), 1), "W");
  ExpectTogether(right, b_.Socket({5, 2, 0}));
}

TEST_F(PeerDoorTest, P3SilenceEndsInTime) {
  PeerOptions options = {"geheim", "job", {}};
  options.times.prove_within = absl::Milliseconds(1);
  Make(b_, options);
  BeginBoth();
  const UniqueFd silent = ConnectTo(port_);
  const UniqueFd half = ConnectTo(port_);
  Say(half, "MSPC");
  EXPECT_TRUE(RunUntilClosed(silent));
  EXPECT_TRUE(RunUntilClosed(half));
  EXPECT_EQ(b_.door->unproven(), 0u);
}

TEST_F(PeerDoorTest, P3TheOldestThatHasProvenNothingGoesFirst) {
  PeerOptions options = {"geheim", "job", {}};
  options.times.prove_soon = absl::ZeroDuration();
  options.unproven_max = 4;
  Make(b_, options);
  BeginBoth();
  std::vector<UniqueFd> silent;
  while (silent.size() < options.unproven_max) {
    silent.push_back(ConnectTo(port_));
  }
  ASSERT_TRUE(RunUntil([&] { return b_.door->unproven() == options.unproven_max; }));
  silent.push_back(ConnectTo(port_));
  EXPECT_TRUE(RunUntilClosed(silent[0]));
  EXPECT_FALSE(Closed(silent[1]));
  ExpectMeeting(0, 0, 2);
  EXPECT_TRUE(Closed(silent[1]));
  EXPECT_FALSE(Closed(silent[2]));
}

TEST_F(PeerDoorTest, P3WhoComesWhenAllPlacesAreTakenWaitsForOne) {
  PeerOptions options = {"geheim", "job", {}};
  options.times.prove_soon = absl::Milliseconds(50);
  options.unproven_max = 2;
  Make(b_, options);
  BeginBoth();
  const UniqueFd silent = ConnectTo(port_);
  const UniqueFd other = ConnectTo(port_);
  ASSERT_TRUE(RunUntil([&] { return b_.door->unproven() == 2; }));
  ExpectMeeting(0, 0, 2);  // when the first has had its time
  EXPECT_TRUE(RunUntilClosed(silent));
  // A place that becomes free is taken at once.
  options.times.prove_soon = absl::InfiniteDuration();
  Make(b_, options);
  BeginB();
  UniqueFd one = ConnectTo(port_);
  UniqueFd two = ConnectTo(port_);
  ASSERT_TRUE(RunUntil([&] { return b_.door->unproven() == 2; }));
  const PeerPair at_a = {1, 0, 2};
  const PeerPair at_b = {1, 2, 0};
  a_.Seek(at_a);
  b_.Seek(at_b);
  RunReady();
  EXPECT_FALSE(a_.Has(at_a));
  one.Reset();
  ASSERT_TRUE(RunUntil([&] { return a_.Has(at_a) && b_.Has(at_b); }));
  ExpectTogether(a_.Socket(at_a), b_.Socket(at_b));
}

// The connector has one at a time: it did not hear of the first one's welcome in time.
TEST_F(PeerDoorTest, P3ASecondOneForTheSamePairTakesTheFirstOnesPlace) {
  BeginBoth();
  const UniqueFd first = ConnectTo(port_);
  Prove(first, Hello());
  ASSERT_TRUE(RunUntil([&] { return b_.door->held() == 1; }));
  const UniqueFd second = ConnectTo(port_);
  Prove(second, Hello());
  EXPECT_TRUE(RunUntilClosed(first));
  EXPECT_EQ(b_.door->held(), 1u);
  b_.Seek({0, 2, 0});
  EXPECT_EQ(ReadBytes(second.get(), 1), "W");
  ExpectTogether(second, b_.Socket({0, 2, 0}));
}

TEST_F(PeerDoorTest, WhoSpeaksOfARoundToComeIsHeldUntilItBegins) {
  BeginBoth();
  const UniqueFd early = ConnectTo(port_);
  const std::string hello = PeerHandshake::Connector(Secrets("geheim"), Hello(8)).TakeOutput();
  Say(early, hello);
  const UniqueFd silent = ConnectTo(port_);
  ASSERT_TRUE(RunUntil([&] { return b_.door->unproven() == 2; }));
  RunReady();
  b_.door->EndRound();
  EXPECT_TRUE(RunUntilClosed(silent));
  EXPECT_FALSE(Closed(early));
  BeginB(8);
  std::string answer(kPeerAnswerBytes, '\0');
  EXPECT_TRUE(RunUntil([&] {
    return recv(early.get(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_PEEK) ==
           static_cast<ssize_t>(answer.size());
  }));
  BeginB(9);
  EXPECT_TRUE(RunUntilClosed(early));
}

TEST_F(PeerDoorTest, AnEndedRoundHoldsAndListensToNothing) {
  BeginBoth();
  const UniqueFd held = ConnectTo(port_);
  Prove(held, Hello());
  ASSERT_TRUE(RunUntil([&] { return b_.door->held() == 1; }));
  b_.door->EndRound();
  EXPECT_TRUE(RunUntilClosed(held));
  EXPECT_EQ(b_.door->held(), 0u);
}

TEST_F(PeerDoorTest, ANodeThatDoesNotListenYetIsTriedAgain) {
  BeginA();
  a_.Seek({0, 0, 2});
  a_.Seek({0, 1, 2});
  a_.door->Found(B());
  uv_update_time(&loop_);
  const uint64_t until = uv_now(&loop_) + 30;  // some tries
  ASSERT_TRUE(RunUntil([&] { return uv_now(&loop_) >= until; }));
  EXPECT_TRUE(a_.results.empty());
  BeginB();
  b_.Seek({0, 2, 0});
  b_.Seek({0, 2, 1});
  ASSERT_TRUE(RunUntil([&] { return a_.results.size() == 2 && b_.results.size() == 2; }));
  ExpectTogether(a_.Socket({0, 1, 2}), b_.Socket({0, 2, 1}));
}

TEST_F(PeerDoorTest, P2NobodyThereIsSaidInTheEnd) {
  PeerOptions options = {"geheim", "job", {}};
  options.times.retry_for = absl::Milliseconds(20);
  options.times.retry_min = options.times.retry_max = absl::Milliseconds(5);
  Make(a_, options);
  BeginA();
  constexpr uint32_t kSeeks = 2 * PeerDoor::kConnectsPerNode;
  for (uint32_t i = 0; i < kSeeks; ++i) {
    a_.Seek({i, 0, 2});
  }
  a_.door->Found(B());
  ASSERT_TRUE(RunUntil([&] { return a_.results.size() == kSeeks; }));
  const std::string why = a_.Refusal({0, 0, 2});
  EXPECT_THAT(why, HasSubstr(absl::StrCat("no connection to rank 2 of node 1 at 127.0.0.1:", port_,
                                          ": 127.0.0.1: Connection refused; ")));
  EXPECT_THAT(why, HasSubstr("See --port-range and --iface"));
  EXPECT_LT(why.size(), sizeof(LinkPeer::why));
  // Later ones are tried again.
  BeginB();
  ExpectMeeting(99, 0, 2);
}

}  // namespace
}  // namespace muster
