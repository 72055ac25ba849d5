#include "worker_sdk/transport/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/worker_sdk/ranks.h"
#include "tests/worker_sdk/scarce_memory.h"
#include "worker_sdk/base/no_memory.h"

namespace muster {
namespace {

using testing::HasSubstr;

constexpr CallMark kMark = {1, 2, 3, 0, 4, 5};
const auto never = [](uint32_t) { return Status(); };
const auto at_once = [](uint32_t rank) {
  return Status(StatusCode::kDeadlineExceeded, "rank " + std::to_string(rank));
};

Status Disagree(uint32_t rank, const MessageHead& theirs) {
  return {StatusCode::kFailedPrecondition, "rank " + std::to_string(rank) + " is in call " +
                                               std::to_string(theirs.call) + " with " +
                                               std::to_string(theirs.bytes)};
}

// Node 0 of three, connected with rank 11 of node 1 and rank 12 of node 2, whose ends the test has.
class PeersTest : public testing::Test {
 protected:
  PeersTest() : peers(3, {}, Disagree) {
    for (uint32_t node = 1; node < 3; ++node) {
      auto [mine, end] = TcpPair();
      peers.Add(node, 10 + node, std::move(mine));
      ends[node] = std::move(end);
    }
    peers.Begin(7, kMark);
  }
  static std::string Head(MessageKind kind, uint64_t call, uint64_t bytes) {
    MessageHead head;
    head.kind = kind;
    head.call = call;
    head.bytes = bytes;
    head.mark = kMark;
    return {reinterpret_cast<const char*>(&head), sizeof(head)};
  }
  void Say(uint32_t node, const std::string& text) const {
    ASSERT_EQ(write(ends[node].get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  Status Receive(uint64_t bytes, const Peers::GiveUp& give_up = never) {
    received.assign(bytes, '?');
    return peers.Receive(1, reinterpret_cast<uint8_t*>(received.data()), bytes, give_up);
  }

  Peers peers;
  UniqueFd ends[3];
  std::string received;
};

TEST_F(PeersTest, TakesAMessageHoweverItIsCut) {
  const std::string message = Head(MessageKind::kData, 7, 5) + "hello";
  for (size_t cut = 0; cut <= message.size(); ++cut) {
    std::thread other([&] {
      Say(1, message.substr(0, cut));
      std::this_thread::yield();
      Say(1, message.substr(cut));
    });
    EXPECT_EQ(Receive(5).ToString(), "OK");
    other.join();
    ASSERT_EQ(received, "hello");
  }
  Say(1, Head(MessageKind::kData, 7, 0) + message);  // nothing of the next one is taken
  EXPECT_TRUE(Receive(0).ok());
  EXPECT_TRUE(Receive(5).ok());
  EXPECT_EQ(received, "hello");
}

TEST_F(PeersTest, AReasonThatDoesNotComeIsStillOne) {
  Say(1, Head(MessageKind::kFailure, 14, 5));
  ends[1].Reset();
  EXPECT_EQ(Receive(5).ToString(), "UNAVAILABLE: rank 11 has given up");
}

TEST_F(PeersTest, WhatIsNoMessageOfOursIsSaid) {
  Say(1, Head(MessageKind::kFailure, 0, 0));
  EXPECT_THAT(Receive(5).ToString(), HasSubstr("INTERNAL: rank 11 speaks another protocol"));
}

TEST_F(PeersTest, AKindThatNobodyKnowsIsSaid) {
  Say(1, Head(static_cast<MessageKind>(77), 14, 0));
  EXPECT_THAT(Receive(5).ToString(), HasSubstr("INTERNAL: rank 11 speaks another protocol"));
}

TEST_F(PeersTest, SendsWhileItReceives) {
  constexpr uint64_t kBytes = 8u << 20;  // more than the kernel takes at once
  const std::vector<uint8_t> data(kBytes, 42);
  std::thread other(
      [&] { Say(1, Head(MessageKind::kData, 7, kBytes) + std::string(kBytes, 'x')); });
  std::thread reader([&] {
    std::vector<uint8_t> got(sizeof(MessageHead) + kBytes);
    ASSERT_EQ(recv(ends[1].get(), got.data(), got.size(), MSG_WAITALL),
              static_cast<ssize_t>(got.size()));
    EXPECT_EQ(std::string(got.begin(), got.begin() + sizeof(MessageHead)),
              Head(MessageKind::kData, 7, kBytes));
    EXPECT_EQ(std::vector<uint8_t>(got.begin() + sizeof(MessageHead), got.end()), data);
  });
  EXPECT_TRUE(peers.Send(1, data.data(), kBytes).ok());
  EXPECT_EQ(Receive(kBytes).ToString(), "OK");
  EXPECT_EQ(received, std::string(kBytes, 'x'));
  EXPECT_EQ(peers.Flush(1, never).ToString(), "OK");
  other.join();
  reader.join();
}

TEST_F(PeersTest, FlushWaitsForTheFirstOnesOnly) {
  constexpr uint64_t kBytes = 32u << 20;
  const std::vector<uint8_t> data(kBytes);
  EXPECT_TRUE(peers.Send(1, data.data(), 8).ok());
  EXPECT_TRUE(peers.Send(2, data.data(), kBytes).ok());  // nobody takes it
  EXPECT_TRUE(peers.Flush(1, at_once).ok());
  EXPECT_EQ(peers.Flush(2, at_once).message(), "rank 12");
}

TEST_F(PeersTest, AWaitCountsForWhomItWas) {
  const std::string message = Head(MessageKind::kData, 7, 5) + "hello";
  const auto comes_now = [&](uint32_t) {  // asked after a sleep
    Say(1, message);
    return Status();
  };
  EXPECT_EQ(Receive(5, comes_now).ToString(), "OK");
  const std::chrono::nanoseconds once = peers.waited(1);
  EXPECT_GT(once.count(), 0);
  EXPECT_EQ(peers.waited(0).count() + peers.waited(2).count(), 0);
  // What nobody takes: more than a connection holds.
  const std::vector<uint8_t> much(16u << 20);
  ASSERT_TRUE(peers.Send(2, much.data(), much.size()).ok());
  std::thread taker;
  const auto taken_now = [&](uint32_t rank) {
    EXPECT_EQ(rank, 12u);
    if (!taker.joinable()) {
      taker = std::thread([&] {
        std::vector<char> bytes(1u << 20);
        ssize_t some = 1;
        for (size_t left = sizeof(MessageHead) + much.size(); left > 0 && some > 0;
             left -= static_cast<size_t>(some)) {
          some = read(ends[2].get(), bytes.data(), bytes.size());
        }
      });
    }
    return Status();
  };
  EXPECT_EQ(peers.Flush(1, taken_now).ToString(), "OK");
  taker.join();
  EXPECT_GT(peers.waited(2).count(), 0);
  EXPECT_EQ(peers.waited(1), once);
}

// By then this rank has sent its part: with that the call of another one may end well.
TEST_F(PeersTest, AWaitNeedsNoMemory) {
  peers.SetNap([](uint32_t) { return std::chrono::milliseconds(1); });
  for (uint64_t call = 8; call < 40;
       ++call) {  // each with a word that we wait, which may be left out
    peers.Begin(call, kMark);
    const std::string message = Head(MessageKind::kData, call, 5) + "hello";
    int naps = 0;
    const Peers::GiveUp late = [&](uint32_t) {
      if (++naps == 3) {
        Say(1, message);
      }
      return Status();
    };
    received.assign(5, '?');
    auto* const to = reinterpret_cast<uint8_t*>(received.data());
    const ScarceMemory none(0, /*all=*/true);
    const Status status = peers.Receive(1, to, 5, late);
    ASSERT_TRUE(status.ok() && naps == 3 && received == "hello") << call;
  }
}

TEST_F(PeersTest, WhatCannotBeQueuedHasNotBegun) {
  const std::string data(1000, 'x');
  const auto* const bytes = reinterpret_cast<const uint8_t*>(data.data());
  bool refused = false;
  for (uint64_t call = 8; call < 40; ++call) {
    peers.Begin(call, kMark);
    const Status sent = OrNoMemory([&] {
      const ScarceMemory none(0, /*all=*/true);
      return peers.Send(1, bytes, data.size());
    });
    refused |= sent.code() == StatusCode::kResourceExhausted;
    EXPECT_FALSE(peers.Progress()) << call;
    EXPECT_TRUE(peers.Flush(1, never).ok());
  }
  EXPECT_TRUE(refused);
}

TEST_F(PeersTest, WhatIsNoMessageOfThisCallEndsIt) {
  Say(1, Head(MessageKind::kData, 8, 5) + "hello");
  EXPECT_EQ(Receive(5).message(), "rank 11 is in call 8 with 5");
}

// A rank that waits for us says so; it is no answer to our own wait.
TEST_F(PeersTest, WhoWaitsForUsInTheSameCallIsPassedOver) {
  const std::string message = Head(MessageKind::kData, 7, 5) + "hello";
  const std::string waiting = Head(MessageKind::kWaiting, 7, 0);
  for (const std::string& before : {waiting, waiting + Head(MessageKind::kWaiting, 3, 0)}) {
    Say(1, before + message);
    EXPECT_EQ(Receive(5).ToString(), "OK");
    EXPECT_EQ(received, "hello");
  }
  Say(1, waiting);
  EXPECT_EQ(Receive(5, at_once).message(), "rank 11");
}

TEST_F(PeersTest, WhoWaitsForUsInAnotherCallDisagrees) {
  peers.Begin(8, {});
  Say(1, Head(MessageKind::kWaiting, 7, 0));  // the same as ours was
  EXPECT_EQ(Receive(5, at_once).message(), "rank 11");
  Say(1, Head(MessageKind::kWaiting, 8, 0));
  EXPECT_EQ(Receive(5).message(), "rank 11 is in call 8 with 0");
}

// A rank whose call is another one is told by us, too: its connection is well.
TEST_F(PeersTest, WhoDisagreesIsToldWhy) {
  peers.Begin(8, {});
  Say(1, Head(MessageKind::kWaiting, 8, 0));
  EXPECT_FALSE(Receive(5).ok());
  peers.Fail({StatusCode::kFailedPrecondition, "why"});
  std::string got(sizeof(MessageHead) + 3, 0);
  ASSERT_EQ(recv(ends[1].get(), got.data(), got.size(), MSG_WAITALL),
            static_cast<ssize_t>(got.size()));
  EXPECT_EQ(got.substr(sizeof(MessageHead)), "why");
}

TEST_F(PeersTest, GarbageIsRefused) {
  Say(1, std::string(64, 'G'));
  EXPECT_EQ(Receive(5).code(), StatusCode::kInternal);
}

TEST_F(PeersTest, EndsAreTold) {
  EXPECT_EQ(Receive(5, at_once).message(), "rank 11");  // it says nothing
  Say(1, Head(MessageKind::kData, 7, 5) + "hel");
  ends[1].Reset();
  const Status status = Receive(5);
  EXPECT_EQ(status.ToString(), "UNAVAILABLE: rank 11 has died");
  EXPECT_EQ(status.peer(), 11);
}

TEST_F(PeersTest, GoodbyeIsNoDeath) {
  Say(1, Head(MessageKind::kBye, 0, 0));
  ends[1].Reset();
  const Status status = Receive(5);
  EXPECT_EQ(status.ToString(), "FAILED_PRECONDITION: rank 11 has closed its communicator");
  EXPECT_EQ(status.peer(), 11);
}

TEST_F(PeersTest, AFailureComesWithItsReason) {
  for (const uint64_t wanted : {0u, 3u, 500u}) {  // it lies where data was expected, or not
    const std::string why = "rank 5 has died";
    Say(1,
        Head(MessageKind::kFailure, static_cast<uint64_t>(StatusCode::kUnavailable), why.size()) +
            why);
    const Status status = Receive(wanted);
    EXPECT_EQ(status.ToString(), "UNAVAILABLE: rank 5 has died") << wanted;
    EXPECT_EQ(status.peer(), 3);  // whom its head names: kMark.root, counted from 1
  }
}

// It failed behind data that nobody has read, and is gone: sending to it tells, and why.
TEST_F(PeersTest, AFailureBehindDataComesWithItsReason) {
  const std::vector<uint8_t> data(1u << 20);
  EXPECT_TRUE(peers.Send(1, data.data(), data.size()).ok());  // unread there: its end is a reset
  Say(1, Head(MessageKind::kData, 7, 100000) + std::string(100000, 'x'));
  Say(1, Head(MessageKind::kFailure, static_cast<uint64_t>(StatusCode::kUnavailable), 3) + "why");
  ends[1].Reset();
  EXPECT_EQ(peers.Flush(1, never).ToString(), "UNAVAILABLE: why");
  EXPECT_EQ(Receive(5).ToString(), "UNAVAILABLE: why");
}

TEST_F(PeersTest, AFailureOfAnyPeerIsSeen) {
  EXPECT_TRUE(peers.Failure().ok());
  Say(2, Head(MessageKind::kFailure, static_cast<uint64_t>(StatusCode::kUnavailable), 3) + "why");
  EXPECT_EQ(Receive(5, at_once).message(), "rank 11");  // whoever waits has to ask
  EXPECT_EQ(peers.Failure().ToString(), "UNAVAILABLE: why");
  EXPECT_EQ(Receive(5).ToString(), "UNAVAILABLE: why");
}

TEST_F(PeersTest, AnEndOfAnotherPeerDoesNot) {
  ends[2].Reset();
  EXPECT_TRUE(peers.Failure().ok());
  EXPECT_EQ(Receive(5, at_once).message(), "rank 11");
}

// Its connection is always ready, and nothing goes to it any more.
TEST_F(PeersTest, ADeathOfWhomSomethingStillGoesToEndsAWaitForAnother) {
  const std::vector<uint8_t> data(16u << 20);  // more than a connection holds
  EXPECT_TRUE(peers.Send(2, data.data(), data.size()).ok());
  Say(2, Head(MessageKind::kData, 7, 100));  // unread
  ends[2].Reset();
  EXPECT_EQ(Receive(5).ToString(), "UNAVAILABLE: rank 12 has died");
}

// The kernel takes back what it has not sent of a socket that is closed with something unread.
TEST_F(PeersTest, WhatWasSentArrivesThoughItsSenderClosesBeforeItHasReadAll) {
  std::pair<UniqueFd, UniqueFd> sockets = TcpPair([](int fd) {
    const int little = 8192;
    const int much = 1 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &much, sizeof(much));
  });
  const int end = sockets.second.get();
  const std::vector<uint8_t> data(100'000, 42);
  const std::string waiting = Head(MessageKind::kWaiting, 7, 0);
  std::string got(sizeof(MessageHead) + data.size() + sizeof(MessageHead), 0);
  std::thread reader;
  {
    Peers closes(2, {}, Disagree);
    closes.Add(1, 11, std::move(sockets.first));
    closes.Begin(7, kMark);
    ASSERT_TRUE(closes.Send(1, data.data(), data.size()).ok());
    ASSERT_FALSE(closes.Progress()) << "it is the kernel's";
    ASSERT_EQ(write(end, waiting.data(), waiting.size()), static_cast<ssize_t>(waiting.size()));
    reader = std::thread([&] {
      EXPECT_EQ(recv(end, got.data(), got.size(), MSG_WAITALL), static_cast<ssize_t>(got.size()));
    });
  }
  reader.join();
  EXPECT_EQ(got.substr(sizeof(MessageHead), data.size()), std::string(data.begin(), data.end()));
}

TEST_F(PeersTest, FailTellsEverybodyBehindWhatHadBegun) {
  const std::string data = "four";
  EXPECT_TRUE(peers.Send(1, reinterpret_cast<const uint8_t*>(data.data()), 4).ok());
  peers.Fail({StatusCode::kUnavailable, std::string(3000, 'w'), 5});
  for (uint32_t node = 1; node < 3; ++node) {
    std::string got(4096, 0);
    const ssize_t bytes = recv(ends[node].get(), got.data(), got.size(), MSG_WAITALL);
    got.resize(static_cast<size_t>(bytes));
    const std::string before = node == 1 ? Head(MessageKind::kData, 7, 4) + data : "";
    ASSERT_EQ(got.substr(0, before.size()), before);
    MessageHead head;
    std::memcpy(&head, got.data() + before.size(), sizeof(head));
    EXPECT_EQ(head.kind, MessageKind::kFailure);
    EXPECT_EQ(head.mark.root, 6u);
    EXPECT_EQ(got.substr(before.size() + sizeof(head)), std::string(head.bytes, 'w'));
  }
  EXPECT_FALSE(Receive(5).ok());
}

}  // namespace
}  // namespace muster
