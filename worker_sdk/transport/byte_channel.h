// Bytes in order between two ranks, both ways: over TCP, or through memory that two ranks of a node
// share. Nothing here waits.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "worker_sdk/algorithm/conversation.h"
#include "worker_sdk/transport/held_socket.h"

namespace muster {

class ByteChannel {
 public:
  ByteChannel() = default;
  virtual ~ByteChannel() = default;
  ByteChannel(const ByteChannel&) = delete;
  ByteChannel& operator=(const ByteChannel&) = delete;

  struct Moved {
    uint64_t bytes = 0;  // 0: there is no room, or nothing to read, now
    bool ended = false;  // or ever again
    int error = 0;       // why, an errno; 0: the other side is gone
  };
  virtual Moved Write(const std::array<Conversation::Piece, 2>& pieces) = 0;
  virtual Moved Read(uint8_t* to, uint64_t bytes) = 0;
  // The other side shall know that nothing more is read or written here.
  virtual void Abort() = 0;
  // Between ranks that pull messages out of each other's memory: the other side shall not any more;
  // Abort() says so, too.
  virtual void Withdraw() {}
  // Whether the other side has said so. Asked after a pull: if not, all of it was valid.
  virtual bool withdrawn() const { return false; }
  virtual int fd() const { return -1; }          // to wait for; -1: it is memory
  virtual uint64_t unsent() const { return 0; }  // written, and lost if this ends now
};

// A connected stream socket.
std::unique_ptr<ByteChannel> OverSocket(HeldSocket socket);

// What the agent gave two ranks of a node. `ring_bell`: after each move, the other rank's. Null:
// it is not a pipe.
std::unique_ptr<ByteChannel> OverPipe(const UniqueFd& memory, bool is_lower,
                                      std::function<void()> ring_bell);
// From a rank to itself.
std::unique_ptr<ByteChannel> ToOneself();

}  // namespace muster
