#include "tests/bench/tcp_bytes.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {

uint64_t TcpBytesReceived() {
  uint64_t sum = 0;
  for (int fd = 3; fd < getdtablesize(); ++fd) {
    tcp_info info{};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
      sum += info.tcpi_bytes_received;
    }
  }
  return sum;
}

}  // namespace muster
