// Connections of tests to ports of this machine.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>

namespace muster {

// Of a socket of `family`, IPv4 or IPv6; as connect(2).
inline int ConnectToLoopback(int socket, int family, uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  v4.sin_port = htons(port);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  v6.sin6_port = htons(port);
  return family == AF_INET ? connect(socket, reinterpret_cast<sockaddr*>(&v4), sizeof(v4))
                           : connect(socket, reinterpret_cast<sockaddr*>(&v6), sizeof(v6));
}

}  // namespace muster
