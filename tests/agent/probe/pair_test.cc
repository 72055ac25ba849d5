// Both ends of a tried connection, over loopback.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "agent/io/thread.h"
#include "agent/io/torch_store_port.h"
#include "agent/probe/name_facts.h"
#include "agent/probe/pair_client.h"
#include "agent/probe/pair_io.h"
#include "agent/probe/pair_server.h"
#include "proto/base/await_fd.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr char kWord[] = "word";

ProbePeer Peer(uint16_t port) { return {1, "b", "127.0.0.1", port}; }

// The port of a probe that answers.
uint16_t Serve() {
  BoundPort bound = BindStorePort("127.0.0.1", 0).value();
  EXPECT_TRUE(ServePairs(std::move(bound.fd), kWord).ok());
  return bound.port;
}

// The other end is the test's own.
class AnsweredByHand : public testing::Test {
 protected:
  // Has the first caller, and its word.
  UniqueFd Accept() {
    EXPECT_TRUE(AwaitFd(bound_.fd.get(), POLLIN, deadline_, "a caller").ok());
    UniqueFd fd(accept4(bound_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string word(sizeof(kWord) - 1, '\0');
    EXPECT_TRUE(ReceiveAll(fd.get(), word.data(), word.size(), deadline_).ok());
    return fd;
  }
  // What the caller makes of it, once it has given up or got what it wants.
  PairResult Result() {
    { const Thread joined = *std::move(caller_); }
    return results_.at(0);
  }

  const absl::Time deadline_ = BootNow() + absl::Seconds(60);
  BoundPort bound_ = BindStorePort("127.0.0.1", 0).value();
  std::vector<PairResult> results_;
  absl::StatusOr<Thread> caller_ =
      Thread::Start("caller", [this] { results_ = TryPeers({Peer(bound_.port)}, kWord); });
};

TEST(Pairs, AGoodPairHasSpeeds) {
  const auto results = TryPeers({Peer(Serve()), Peer(Serve())}, kWord);
  ASSERT_EQ(results.size(), 2u);
  for (const PairResult& result : results) {
    EXPECT_EQ(result.failed, "") << result.error;
    EXPECT_EQ(result.source, "127.0.0.1");
    EXPECT_GT(result.round_trip_s, 0);
    EXPECT_GT(result.bytes_per_s, 0);
  }
}

// Far away, as over a satellite: nothing is lost, and each answer takes its time.
TEST_F(AnsweredByHand, AFarPeerIsMeasured) {
  constexpr absl::Duration kAway = absl::Milliseconds(300);
  const UniqueFd fd = Accept();
  for (;;) {
    const absl::StatusOr<uint64_t> size = ReceiveFrameSize(fd.get(), deadline_);
    if (!size.ok()) {
      break;  // the caller has what it wants
    }
    std::string bytes(*size, '\0');
    ASSERT_TRUE(ReceiveAll(fd.get(), bytes.data(), bytes.size(), deadline_).ok());
    EXPECT_EQ(poll(nullptr, 0, *size == 1 ? static_cast<int>(kAway / absl::Milliseconds(1)) : 0),
              0);
    ASSERT_TRUE(SendAll(fd.get(), "!", 1, deadline_).ok());
  }
  const PairResult result = Result();
  EXPECT_EQ(result.failed, "") << result.error;
  EXPECT_GE(result.round_trip_s, absl::ToDoubleSeconds(kAway));
  EXPECT_GT(result.bytes_per_s, 0);
}

// What is lost later is no matter of the size.
TEST_F(AnsweredByHand, OneThatHasAnsweredAndThenIsSilent) {
  const UniqueFd fd = Accept();
  for (int i = 0; i < 2; ++i) {  // a small frame and a large one
    std::string bytes(ReceiveFrameSize(fd.get(), deadline_).value(), '\0');
    ASSERT_TRUE(ReceiveAll(fd.get(), bytes.data(), bytes.size(), deadline_).ok());
    ASSERT_TRUE(SendAll(fd.get(), "!", 1, deadline_).ok());
  }
  EXPECT_EQ(Result().failed, "small");
}

// A link that does not carry a whole sample in time is slow, and loses nothing.
TEST_F(AnsweredByHand, WhatArrivesOfASampleIsTheSpeed) {
  const UniqueFd fd = Accept();
  for (int large = 0; large < 3;) {  // the first tells whether large ones pass
    std::string bytes(ReceiveFrameSize(fd.get(), deadline_).value(), '\0');
    large += bytes.size() > 1;
    ASSERT_TRUE(ReceiveAll(fd.get(), bytes.data(), bytes.size(), deadline_).ok());
    ASSERT_TRUE(SendAll(fd.get(), "!", 1, deadline_).ok());
  }
  const PairResult result = Result();
  EXPECT_EQ(result.failed, "") << result.error;
  EXPECT_GT(result.bytes_per_s, 0);
}

// A machine that stands still for a moment is not a slow link.
TEST_F(AnsweredByHand, OneSampleThatWasHeldUpIsNotTheSpeed) {
  const UniqueFd fd = Accept();
  std::string bytes;
  bool held_up = false;
  int large_frames = 0;
  while (true) {
    const absl::StatusOr<uint64_t> size = ReceiveFrameSize(fd.get(), deadline_);
    if (!size.ok()) {
      break;  // the caller has what it wants
    }
    bytes.resize(*size);
    ASSERT_TRUE(ReceiveAll(fd.get(), bytes.data(), bytes.size(), deadline_).ok());
    large_frames += *size > 1;
    if (large_frames == 2 && !held_up) {  // the first tells whether large ones pass
      held_up = true;
      EXPECT_EQ(poll(nullptr, 0, 2000), 0);
    }
    ASSERT_TRUE(SendAll(fd.get(), "!", 1, deadline_).ok());
  }
  const PairResult result = Result();
  EXPECT_TRUE(held_up);
  EXPECT_EQ(result.failed, "") << result.error;
  EXPECT_GT(result.bytes_per_s, (4 << 20) / 2.0) << "faster than the sample that was held up";
}

TEST(Pairs, ARefusedConnectionIsSaid) {
  BoundPort bound = ReservePort("127.0.0.1", 0).value();  // nobody listens
  const auto results = TryPeers({Peer(bound.port)}, kWord);
  EXPECT_EQ(results.at(0).failed, "connect");
  EXPECT_THAT(results.at(0).error, HasSubstr("refused"));
}

TEST(Pairs, AStrangerGetsNoAnswer) {
  const auto results = TryPeers({Peer(Serve())}, "other");
  // "othe" is no word of theirs.
  EXPECT_EQ(results.at(0).failed, "small");
}

TEST_F(AnsweredByHand, OneThatAnswersOnlyWhatIsSmall) {
  const UniqueFd fd = Accept();
  char byte = 0;
  EXPECT_EQ(ReceiveFrameSize(fd.get(), deadline_).value(), 1u);
  ASSERT_TRUE(ReceiveAll(fd.get(), &byte, 1, deadline_).ok());
  ASSERT_TRUE(SendAll(fd.get(), "!", 1, deadline_).ok());
  EXPECT_GT(ReceiveFrameSize(fd.get(), deadline_).value(), 1500u);
  EXPECT_EQ(Result().failed, "large");
}

TEST(Pairs, AFrameThatIsTooLargeEndsTheVisit) {
  const uint16_t port = Serve();
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const absl::Time deadline = BootNow() + absl::Seconds(60);
  ASSERT_TRUE(SendAll(fd.get(), kWord, sizeof(kWord) - 1, deadline).ok());
  ASSERT_TRUE(SendFrameSize(fd.get(), kPairFrameBytesMax + 1, deadline).ok());
  char byte = 0;
  EXPECT_TRUE(absl::IsUnavailable(ReceiveAll(fd.get(), &byte, 1, deadline)));
}

TEST(Names, ResolvedOrWhatIsWrong) {
  const auto names = ResolveNames({"127.0.0.5", "muster.invalid"}, BootNow() + absl::Seconds(60));
  EXPECT_THAT(names.at(0).addresses, ::testing::ElementsAre("127.0.0.5"));
  EXPECT_EQ(names.at(1).name, "muster.invalid");
  EXPECT_NE(names.at(1).error, "");
}

TEST(Names, NobodyIsWaitedForBehindTheDeadline) {
  const auto names = ResolveNames({"muster.invalid"}, absl::InfinitePast());
  EXPECT_NE(names.at(0).error, "");
}

}  // namespace
}  // namespace muster
