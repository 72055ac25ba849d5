// Doors of two nodes on one loop, over loopback.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/peer_door.h"
#include "agent/io/torch_store_port.h"
#include "proto/base/worker_link.h"
#include "proto/wire/secret.h"
#include "tests/agent/io/loop_test.h"
#include "tests/agent/io/peers_test.h"

namespace muster {

inline constexpr uint32_t kRound = 7;

struct Node {
  RankMap map;
  std::unique_ptr<PeerDoor> door;
  std::vector<NodeRank> asked;
  std::set<std::pair<uint64_t, uint32_t>> gone;  // communicator, rank
  std::map<PeerPair, absl::StatusOr<UniqueFd>> results;

  void Seek(const PeerPair& pair) {
    door->Seek(pair, [this, pair](absl::StatusOr<UniqueFd> result) {
      EXPECT_TRUE(results.emplace(pair, std::move(result)).second) << "P2";
    });
  }
  bool Has(const PeerPair& pair) const { return results.count(pair) != 0; }
  const UniqueFd& Socket(const PeerPair& pair) const {
    const absl::StatusOr<UniqueFd>& result = results.at(pair);
    EXPECT_TRUE(result.ok()) << result.status();
    return *result;
  }
  std::string Refusal(const PeerPair& pair) const {
    return std::string(results.at(pair).status().message());
  }
};

// Ranks 0 and 1 on `a_`, 2 and 3 on `b_`: `a_` connects.
class PeerDoorTest : public TickingLoopTest {
 protected:
  PeerDoorTest() {
    for (Node* node : {&a_, &b_}) {
      Make(*node, {"geheim", "job", {}});
    }
    absl::StatusOr<BoundPort> bound = ReservePort("127.0.0.1", 0);
    EXPECT_TRUE(bound.ok());
    port_ = bound->port;
    reserved_ = std::move(bound->fd);
  }
  ~PeerDoorTest() override {
    a_.results.clear();
    b_.results.clear();
    a_.door.reset();
    b_.door.reset();
  }

  void Make(Node& node, PeerOptions options) {
    PeerDoor::Callbacks callbacks;
    callbacks.ask = [&node](NodeRank sought) { node.asked.push_back(sought); };
    callbacks.may_seek = [this, &node](uint64_t communicator, Rank mine) {
      return node.map.NodeOf(mine) == node_of_[&node] &&
             node.gone.count({communicator, mine.value}) == 0;
    };
    node.door = std::make_unique<PeerDoor>(&loop_, std::move(options), std::move(callbacks));
  }
  void BeginA(uint32_t round = kRound) { Begin(a_, 0, round, UniqueFd()); }
  void BeginB(uint32_t round = kRound) {
    Begin(b_, 1, round, UniqueFd(fcntl(reserved_.get(), F_DUPFD_CLOEXEC, 3)));
  }
  void Begin(Node& node, uint32_t rank, uint32_t round, UniqueFd listening) {
    node_of_[&node] = NodeRank{rank};
    const Assignment assignment = TwoEach(rank, 2, round);
    node.map = RankMap(assignment);
    node.door->BeginRound(assignment, &node.map, std::move(listening));
  }
  void BeginBoth() {
    BeginA();
    BeginB();
  }
  PeerNode B() const { return {NodeRank{1}, "127.0.0.1", port_}; }
  // Both seek it; each gets its end.
  void ExpectMeeting(uint64_t communicator, uint32_t rank_a, uint32_t rank_b) {
    const PeerPair at_a = {communicator, rank_a, rank_b};
    const PeerPair at_b = {communicator, rank_b, rank_a};
    a_.Seek(at_a);
    b_.Seek(at_b);
    a_.door->Found(B());
    ASSERT_TRUE(RunUntil([&] { return a_.Has(at_a) && b_.Has(at_b); }));
    ExpectTogether(a_.Socket(at_a), b_.Socket(at_b));
  }
  static void ExpectTogether(const UniqueFd& one, const UniqueFd& other) {
    Say(one, "there");
    EXPECT_EQ(ReadBytes(other.get(), 5), "there");
    Say(other, "back");
    EXPECT_EQ(ReadBytes(one.get(), 4), "back");
  }
  // Of all that seek each other, in another order on either side.
  void ExpectAllOf(uint32_t communicators) {
    for (uint32_t i = 0; i < communicators; ++i) {
      for (const uint32_t mine : {0u, 1u}) {
        a_.Seek({i, mine, 2 + (i + mine) % 2});
        const uint32_t j = communicators - 1 - i;
        b_.Seek({j, 2 + (j + mine) % 2, mine});
      }
    }
    a_.door->Found(B());
    const size_t all = size_t{2} * communicators;
    ASSERT_TRUE(RunUntil([&] { return a_.results.size() == all && b_.results.size() == all; }));
    for (const auto& [pair, result] : a_.results) {
      ASSERT_TRUE(result.ok()) << result.status();
      Say(*result, absl::StrCat(1000 + pair.communicator, pair.mine));
      const UniqueFd& other = b_.Socket({pair.communicator, pair.theirs, pair.mine});
      EXPECT_EQ(ReadBytes(other.get(), 5), absl::StrCat(1000 + pair.communicator, pair.mine));
    }
  }
  bool RunUntilClosed(const UniqueFd& fd) {
    return RunUntil([&] { return Closed(fd); });
  }

  PeerHandshake::Secrets Secrets(const std::string& secret) const {
    return {[secret](absl::string_view text) { return HmacSha256(secret, text); }, "job",
            *MakeNonce()};
  }
  PeerHello Hello(uint32_t round = kRound) const { return {RoundId{1, round}.Token(), 0, 0, 2}; }
  // Through a whole handshake by hand, but for its last byte; what was said.
  std::pair<std::string, std::string> Prove(const UniqueFd& fd, const PeerHello& hello) {
    PeerHandshake side = PeerHandshake::Connector(Secrets("geheim"), hello);
    std::pair<std::string, std::string> said;
    said.first = side.TakeOutput();
    Say(fd, said.first);
    std::string answer;
    EXPECT_TRUE(RunUntil([&] {
      char bytes[kPeerAnswerBytes];
      const ssize_t n = recv(fd.get(), bytes, kPeerAnswerBytes - answer.size(), MSG_DONTWAIT);
      answer.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
      return answer.size() == kPeerAnswerBytes;
    }));
    EXPECT_TRUE(side.Take(answer).ok());
    said.second = side.TakeOutput();
    Say(fd, said.second);
    return said;
  }

  Node a_;
  Node b_;
  std::map<const Node*, NodeRank> node_of_;
  uint16_t port_ = 0;
  UniqueFd reserved_;
};

}  // namespace muster
