// Two sides of a conversation, and what moves between them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "worker_sdk/algorithm/conversation.h"

namespace muster {

// A transfer and its memory.
struct Owned {
  explicit Owned(uint32_t tag, uint64_t bytes, uint8_t fill = 0, DType dtype = DType::kUInt8)
      : memory(bytes, fill),
        transfer(
            std::make_shared<Transfer>(Transfer{tag, dtype, bytes, memory.data(), false, {}})) {}
  const Status& status() const { return transfer->status; }
  std::vector<uint8_t> memory;
  TransferPtr transfer;
};

// At most so many bytes from one to the other.
inline uint64_t Move(Conversation& from, Conversation& to, uint64_t most = UINT64_MAX) {
  uint64_t moved = 0;
  while (moved < most) {
    const auto pieces = from.NextOut();
    const Conversation::Piece piece = pieces[0].bytes > 0 ? pieces[0] : pieces[1];
    const Conversation::Room room = to.NextIn();
    const uint64_t bytes = std::min({piece.bytes, room.bytes, most - moved});
    if (bytes == 0) {
      break;
    }
    std::memcpy(room.data, piece.data, bytes);
    from.Wrote(bytes);
    to.Took(bytes);
    moved += bytes;
  }
  return moved;
}

// At most so many bytes out of the other one's memory.
inline uint64_t Pull(Conversation& to, uint64_t most = UINT64_MAX) {
  const Conversation::Pull pull = to.NextPull();
  const uint64_t bytes = std::min(pull.bytes, most);
  if (bytes > 0) {
    std::memcpy(pull.data, std::bit_cast<const uint8_t*>(pull.address), bytes);
    to.Pulled(bytes);
  }
  return bytes;
}

class ConversationTest : public testing::Test {
 protected:
  void MoveAll() {
    while (Move(a, b) + Move(b, a) + Pull(a) + Pull(b) > 0) {
    }
  }
  void AllowPulls() {
    a.AllowPulls();
    b.AllowPulls();
  }
  // A message that b asks for; a large one is offered, and b has the offer.
  void Offer(Owned& sent, Owned& received) {
    a.Send(sent.transfer);
    b.Receive(received.transfer);
    Move(a, b);
  }
  // Of a message that is offered and accepted.
  void SendABeginning(Owned& sent, Owned& received) {
    Offer(sent, received);
    Move(b, a);
    Move(a, b, 1000);
  }
  void SendAndReceive(Owned& sent, Owned& received, bool send_first) {
    if (send_first) {
      a.Send(sent.transfer);
      MoveAll();
    }
    b.Receive(received.transfer);
    MoveAll();
    if (!send_first) {
      a.Send(sent.transfer);
      MoveAll();
    }
  }

  Conversation a{"rank 1"};  // with it
  Conversation b{"rank 0"};
};

}  // namespace muster
