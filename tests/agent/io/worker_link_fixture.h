// Doors of two nodes, and workers that knock at them by hand, word by word.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/io/torch_store_port.h"
#include "agent/io/worker_door.h"
#include "proto/base/fd_message.h"
#include "tests/agent/io/loop_test.h"
#include "tests/agent/io/peers_test.h"

namespace muster {

struct Node {
  UniqueFd outside;  // what workers inherit
  std::unique_ptr<WorkerDoor> door;
  std::vector<NodeRank> asked;
};

// A worker's side of a link.
struct Worker {
  UniqueFd link;
  UniqueFd arena;
  LinkWelcome welcome;

  bool Say(LinkVerb verb, uint32_t rank = 0,
           LinkChannel channel = LinkChannel::kCollectives) const {
    const LinkWord word = {kLinkMagic, verb, rank, channel};
    return send(link.get(), &word, sizeof(word), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(word);
  }
  // Of a message that has come.
  bool Hear(LinkPeer* peer, UniqueFd* socket) const {
    iovec part = {peer, sizeof(*peer)};
    return ReceiveWithFd(link.get(), &part, 1, *socket, MSG_DONTWAIT) == sizeof(*peer);
  }
};

// Ranks 0 and 1 on the first node, 2 and 3 on the second, 4 and 5 on the third, which is not here.
class WorkerDoorLinkTest : public TickingLoopTest {
 protected:
  WorkerDoorLinkTest() {
    for (Node* node : {&a_, &b_}) {
      Make(*node, kGroupsOpenMax);
    }
    absl::StatusOr<BoundPort> bound = BindStorePort("127.0.0.1", 0);
    EXPECT_TRUE(bound.ok());
    port_ = bound->port;
    a_.door->BeginRound(TwoEach(0, 3, 7));
    b_.door->BeginRound(TwoEach(1, 3, 7), std::move(bound->fd));
  }
  ~WorkerDoorLinkTest() override {
    a_.door.reset();
    b_.door.reset();
  }

  void Make(Node& node, size_t groups_max) {
    PeerOptions options = {"geheim", "job", {}};
    options.times.retry_for = absl::Milliseconds(10);
    options.times.retry_min = options.times.retry_max = absl::Milliseconds(1);
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    node.outside.Reset(ends[1]);
    node.door = std::make_unique<WorkerDoor>(
        &loop_, UniqueFd(ends[0]), 4, options,
        [&node](NodeRank sought) { node.asked.push_back(sought); }, groups_max);
  }
  static LinkHello Hello(uint32_t rank) {
    LinkHello hello;
    hello.round = RoundId{1, 7}.Token();
    hello.rank = rank;
    return hello;
  }
  // Comes with that hello; what the agent says to it.
  Worker Knock(const Node& node, const LinkHello& hello, std::vector<uint32_t> members = {}) {
    Worker out;
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    out.link.Reset(ends[0]);
    const UniqueFd theirs(ends[1]);
    LinkHello copy = hello;
    std::array<iovec, 2> parts = {
        {{&copy, sizeof(copy)}, {members.data(), members.size() * sizeof(uint32_t)}}};
    EXPECT_GT(SendWithFd(node.outside.get(), parts.data(), parts.size(), theirs.get(), 0), 0);
    iovec answer = {&out.welcome, sizeof(out.welcome)};
    EXPECT_TRUE(RunUntil([&] {
      return ReceiveWithFd(out.link.get(), &answer, 1, out.arena, MSG_DONTWAIT) ==
             static_cast<ssize_t>(sizeof(out.welcome));
    }));
    return out;
  }
  Worker Open(const Node& node, uint32_t rank) {
    Worker out = Knock(node, Hello(rank));
    EXPECT_EQ(out.welcome.answer, LinkAnswer::kWelcome) << out.welcome.why;
    return out;
  }
  std::pair<LinkPeer, UniqueFd> Hear(const Worker& worker) {
    std::pair<LinkPeer, UniqueFd> out;
    EXPECT_TRUE(RunUntil([&] { return worker.Hear(&out.first, &out.second); }));
    EXPECT_EQ(out.first.magic, kLinkMagic);
    EXPECT_EQ(out.second.valid(), out.first.answer == LinkAnswer::kWelcome);
    return out;
  }
  std::string Refusal(const Worker& worker, uint32_t rank,
                      LinkChannel channel = LinkChannel::kCollectives) {
    EXPECT_TRUE(worker.Say(LinkVerb::kSeek, rank, channel));
    const auto [peer, socket] = Hear(worker);
    EXPECT_EQ(peer.answer, LinkAnswer::kRefused);
    EXPECT_EQ(peer.rank, rank);
    EXPECT_EQ(peer.channel, channel);
    return peer.why;
  }
  static LineEnd EndOf(const Worker& seen_by, uint32_t place) {
    ArenaLine line;
    EXPECT_EQ(
        pread(seen_by.arena.get(), &line, sizeof(line),
              static_cast<off_t>(ArenaGeometry().LinesAt() + place * ArenaGeometry::kLineBytes)),
        static_cast<ssize_t>(sizeof(line)));
    return static_cast<LineEnd>(line.gone);
  }

  Node a_;
  Node b_;
  uint16_t port_ = 0;
};

}  // namespace muster
