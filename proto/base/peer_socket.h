// Connections between nodes that carry the workers' data. Without Abseil: the SDK includes it.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace muster {

// Small messages leave at once. A machine that vanishes while nothing is under way ends the
// connection within 25 s (keepalive); otherwise the lease of its node, if it has one, tells first.
// No TCP_USER_TIMEOUT: it also ends a connection whose reader is merely busy.
inline void SetPeerOptions(int socket) {
  constexpr int kIdleSeconds = 10;  // then probes
  constexpr int kProbeSeconds = 5;
  constexpr int kProbes = 3;
  const auto set = [socket](int level, int name, int value) {
    (void)setsockopt(socket, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

}  // namespace muster
