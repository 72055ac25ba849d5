// What tests of connections between nodes share: a socket's two ends, and clients of a port.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/messages.h"
#include "proto/base/unique_fd.h"
#include "tests/agent/io/loopback.h"

namespace muster {

inline UniqueFd ConnectTo(uint16_t port) {
  UniqueFd out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(ConnectToLoopback(out.get(), AF_INET, port), 0);
  return out;
}

inline void Say(const UniqueFd& fd, const std::string& bytes) {
  EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

// The other side has closed it; reads what came before.
inline bool Closed(const UniqueFd& fd) {
  char bytes[4096];
  ssize_t n = 0;
  do {
    n = recv(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  } while (n > 0);
  return n == 0 || (errno != EAGAIN && errno != EINTR);
}

// `nodes` nodes with two workers each: ranks 2n and 2n + 1 on node n.
inline Assignment TwoEach(uint32_t node, uint32_t nodes, uint32_t round) {
  Assignment a;
  a.round = {1, round};
  a.node_rank = NodeRank{node};
  a.nodes = nodes;
  a.workers = 2;
  a.rank_first = Rank{2 * node};
  a.world_size = 2 * nodes;
  a.layout = {{2, nodes}};
  return a;
}

}  // namespace muster
