// How a rank sleeps until those of other nodes have sent, or taken, what it waits for.
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "worker_sdk/transport/peers.h"

namespace muster {
namespace {

constexpr std::chrono::nanoseconds kNap{50'000'000};  // then whoever waits looks around

}  // namespace

// Until something can move, for a moment at most.
Status Peers::Sleep(Peer* from, uint64_t sends, const GiveUp& give_up) {
  // What is held up is there already.
  const bool held = hold_.is_on();
  std::vector<pollfd> polls;
  if (from != nullptr && !held) {
    polls.push_back({from->socket.fd(), POLLIN, 0});
  }
  for (const uint32_t node : sending_) {
    // One that has ended is always ready.
    polls.push_back({held || !peers_[node].end.ok() ? -1 : peers_[node].socket.fd(), POLLOUT, 0});
  }
  const bool busy = (work_ && work_()) || held;
  const uint32_t whom = from != nullptr ? from->rank : peers_[Blocking(sends)].rank;
  const auto most = std::chrono::ceil<std::chrono::milliseconds>(
      nap_ ? std::clamp(nap_(whom), std::chrono::nanoseconds(0), kNap) : kNap);
  const int nap =
      busy ? std::min(kShortNapMs, static_cast<int>(most.count())) : static_cast<int>(most.count());
  if (poll(polls.data(), polls.size(), nap) > 0) {
    return {};
  }
  for (const uint32_t node : sending_) {
    Hear(peers_[node]);  // who takes nothing may have said why
  }
  if (Status ended = Ended(); !ended.ok()) {
    return ended;
  }
  if (from != nullptr) {
    TellWaiting(*from);
  }
  return give_up(whom);
}

// A node that has not taken one of the first `sends`.
uint32_t Peers::Blocking(uint64_t sends) const {
  for (const uint32_t node : sending_) {
    if (peers_[node].out.front().number <= sends) {
      return node;
    }
  }
  return 0;
}

void Peers::TellWaiting(Peer& peer) {
  if (!peer.told && peer.out.empty()) {
    peer.told = true;
    sending_.push_back(static_cast<uint32_t>(&peer - peers_.data()));
    Outgoing& out = peer.out.emplace_back();
    out.head = head_;
    out.head.kind = MessageKind::kWaiting;
  }
}

}  // namespace muster
