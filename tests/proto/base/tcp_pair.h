// Two connected sockets, where a socket pair is not TCP enough.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <functional>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/unique_fd.h"

namespace muster {

// Two ends of a TCP connection over loopback, without Nagle's delay, as agents give them;
// `prepare`: of each socket, before it is connected.
inline std::pair<UniqueFd, UniqueFd> TcpPair(const std::function<void(int fd)>& prepare = [](int) {
}) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int at_once = 1;
  setsockopt(listener.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
  setsockopt(one.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
  prepare(listener.get());  // what is accepted inherits it
  CHECK(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  CHECK(listen(listener.get(), 1) == 0);
  CHECK(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  prepare(one.get());
  CHECK(connect(one.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
  return {std::move(one), UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

}  // namespace muster
