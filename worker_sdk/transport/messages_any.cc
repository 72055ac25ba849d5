// Receives of any rank.
#include <algorithm>
#include <string>

#include "worker_sdk/transport/messages.h"

namespace muster {

// All conversations have it, in the order of all receives; the first message is for it.
void Messages::ReceiveOfAny(const TransferPtr& transfer) {
  if (closed_ || !dropped_.ok()) {
    return transfer->End(dropped_.ok() ? ClosedStatus() : dropped_);
  }
  any_.push_back(transfer);
  const uint32_t world = layout_->world();
  for (uint32_t i = 0; i < world && transfer->from == kAnyRank; ++i) {
    const uint32_t rank = (first_ + i) % world;
    Peer& peer = PeerOf(rank);
    peer.conversation.Receive(transfer);
    Pump(rank, peer);
    Activate(rank, peer);
  }
  SettleAny();
}

void Messages::Withdraw(const TransferPtr& transfer) {
  for (auto& [rank, peer] : peers_) {
    peer.conversation.Withdraw(transfer);
  }
}

// What has got its message is expected of nobody else; what nobody can send any more has ended.
// Where all others have ended this rank itself may still send, but not while it waits.
void Messages::SettleAny() {
  if (any_.empty()) {
    return;
  }
  const Status death = ADeath();
  const Status nobody = death.ok() ? NoOtherSends() : death;
  if (const auto own = peers_.find(rank_); death.ok() && !nobody.ok() && own != peers_.end()) {
    while (Pump(rank_, own->second)) {
      // What it has sent to itself before counts.
    }
  }
  std::erase_if(any_, [&](const TransferPtr& transfer) {
    const bool is_claimed = transfer->from != kAnyRank;
    const Status& why = transfer->awaited ? nobody : death;
    if (!is_claimed && why.ok()) {
      return false;
    }
    Withdraw(transfer);
    if (is_claimed) {
      first_ = static_cast<uint32_t>(transfer->from) + 1;  // everybody's turn comes
    } else {
      transfer->End(why);
    }
    return true;
  });
}

void Messages::EndAny(const Status& why) {
  for (const TransferPtr& transfer : any_) {
    if (transfer->from == kAnyRank) {
      transfer->End(why);
    }
  }
  any_.clear();
}

// Why no receive of any rank gets a message: nobody can tell whether a dead one's is missing.
Status Messages::ADeath() const {
  for (const auto& [rank, peer] : peers_) {
    if (peer.conversation.ended() && (rank == rank_ || HasDied(peer))) {
      return peer.conversation.end();
    }
  }
  return {};
}

// Why none of the others sends anything: all have ended. Whom we could not come to has sent
// nothing.
Status Messages::NoOtherSends() const {
  Status why;
  for (const auto& [rank, peer] : peers_) {
    const Status& end = peer.conversation.end();
    if (rank != rank_) {
      if (end.ok()) {
        return {};
      }
      why = why.ok() || why.code() == StatusCode::kFailedPrecondition ? end : why;
    }
  }
  return why.code() == StatusCode::kFailedPrecondition
             ? Status(why.code(), "every other rank has closed its communicator")
             : why;
}

// Of one that has ended.
bool Messages::HasDied(const Peer& peer) const {
  return peer.channel && !peer.owed
             ? peer.conversation.end().code() != StatusCode::kFailedPrecondition
             : peer.place.has_value() && arena_->EndOf(*peer.place) == LineEnd::kDied;
}

}  // namespace muster
