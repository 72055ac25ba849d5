// Who is at the other end of a connection.
#pragma once

#include <string>

namespace muster {

// Its address without port: "10.0.0.1", "fe80::1%eth0"; "" for a unix socket.
std::string PeerAddress(int socket);

}  // namespace muster
