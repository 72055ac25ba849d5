#pragma once

#include <cstdint>

namespace muster {

// What came in on every TCP connection that this process has open. (In a file of its own: the
// kernel's tcp_info, which counts bytes, and the C library's, which does not, exclude each other.)
uint64_t TcpBytesReceived();

}  // namespace muster
