// How a rank sleeps until those of other nodes have sent, or taken, what it waits for.
#include <poll.h>

#include <algorithm>
#include <chrono>

#include "worker_sdk/base/no_memory.h"
#include "worker_sdk/transport/peers.h"

namespace muster {
namespace {

constexpr std::chrono::nanoseconds kNap{50'000'000};  // then whoever waits looks around

}  // namespace

// Until something can move, for a moment at most. Takes no memory: what this rank has sent already
// may be all that another one waits for, and that one's call would end well where ours fails.
Status Peers::Sleep(Peer* from, uint64_t sends, const GiveUp& give_up) {
  // What is held up is there already.
  const bool held = hold_.is_on();
  polls_.clear();
  if (from != nullptr && !held) {
    polls_.push_back({from->socket.fd(), POLLIN, 0});
  }
  for (const uint32_t node : sending_) {
    // One that has ended is always ready.
    polls_.push_back({held || !peers_[node].end.ok() ? -1 : peers_[node].socket.fd(), POLLOUT, 0});
  }
  const bool busy = (work_ && work_()) || held;
  const uint32_t whom = from != nullptr ? from->rank : peers_[Blocking(sends)].rank;
  const auto most = std::chrono::ceil<std::chrono::milliseconds>(
      nap_ ? std::clamp(nap_(whom), std::chrono::nanoseconds(0), kNap) : kNap);
  const int nap =
      busy ? std::min(kShortNapMs, static_cast<int>(most.count())) : static_cast<int>(most.count());
  if (poll(polls_.data(), polls_.size(), nap) > 0) {
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

// Left out where there is no memory for it.
void Peers::TellWaiting(Peer& peer) {
  if (!peer.told && peer.out.empty()) {
    peer.told = true;
    (void)OrNoMemory([&] {
      Queue(peer).head.kind = MessageKind::kWaiting;
      return Status();
    });
  }
}

}  // namespace muster
