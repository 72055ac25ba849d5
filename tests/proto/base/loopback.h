// Callers from different addresses, all of this machine.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdint>

#include "proto/base/unique_fd.h"

namespace muster {

inline sockaddr_in Loopback(const char* address, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  inet_pton(AF_INET, address, &out.sin_addr);
  return out;
}

// A connection from `address`, as 127.0.0.3, to `port` of 127.0.0.1. A read of it waits 30 s at
// most.
inline UniqueFd ConnectFrom(const char* address, uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in from = Loopback(address, 0);
  const sockaddr_in to = Loopback("127.0.0.1", port);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof(from)), 0);
  const timeval patience{30, 0};
  EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

}  // namespace muster
