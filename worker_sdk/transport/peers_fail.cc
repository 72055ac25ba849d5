// What a rank says last to those of other nodes.
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "worker_sdk/base/momentary.h"
#include "worker_sdk/transport/peers.h"

namespace muster {

// Behind what has begun; as much as it takes until then. Needs no memory.
void Peers::SendLast(Peer& peer, MessageHead head, const char* data,
                     std::chrono::steady_clock::time_point until) {
  uint64_t done = 0;
  const auto send = [&] {
    if (!peer.out.empty()) {
      return SendPiece(peer);
    }
    const uint64_t of_head = std::min(done, sizeof(head));
    iovec parts[] = {{reinterpret_cast<uint8_t*>(&head) + of_head, sizeof(head) - of_head},
                     {const_cast<char*>(data) + (done - of_head), head.bytes - (done - of_head)}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = std::size(parts);
    const ssize_t sent = peer.socket.Send(message);
    done += sent > 0 ? static_cast<uint64_t>(sent) : 0;
    return sent >= 0 || IsMomentary(errno);
  };
  while (done < sizeof(head) + head.bytes && send() && std::chrono::steady_clock::now() < until) {
    if (done < sizeof(head) + head.bytes) {
      pollfd one = {hold_.is_on() ? -1 : peer.socket.fd(), POLLOUT, 0};
      (void)poll(&one, 1, 1);
    }
  }
}

void Peers::Fail(const Status& why) {
  const auto until = std::chrono::steady_clock::now() + kLastWordWithin;
  MessageHead head;
  head.kind = MessageKind::kFailure;
  head.call = static_cast<uint64_t>(why.code());
  head.bytes = std::min<uint64_t>(why.message().size(), kFailureBytesMax);
  head.mark.root = static_cast<uint32_t>(why.peer()) + 1;
  for (Peer& peer : peers_) {
    if (!peer.socket.valid() || !peer.end.ok()) {
      continue;
    }
    // What has not begun need not be sent any more.
    while (!peer.out.empty() && peer.out.back().done == 0) {
      peer.out.pop_back();
    }
    SendLast(peer, head, why.message().data(), until);
    peer.out.clear();
    peer.end = {why.code(), "has failed"};  // short: needs no memory
    peer.has_last_word = true;
    shutdown(peer.socket.fd(), SHUT_WR);
  }
  sending_.clear();
}

}  // namespace muster
