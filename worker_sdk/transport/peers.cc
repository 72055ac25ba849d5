#include "worker_sdk/transport/peers.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "worker_sdk/base/momentary.h"

namespace muster {
namespace {

// Moved at once in one direction: the other has its turn then, while the data is in the cache. With
// the heads it fits into the largest packet of Linux, 64 KiB less some: of pieces of two large
// packets, those that left by another core overtook others, which TCP took for lost.
constexpr uint64_t kPiece = 56u << 10;
// Messages that one system call sends: a node's slots go out as one message each.
constexpr size_t kGathered = 16;
static_assert(kPiece + kGathered * sizeof(MessageHead) <= 60u << 10);
constexpr std::chrono::microseconds kSpin{5};
// Looks before we ask whether it is time to sleep.
constexpr uint32_t kLooks = 16;
constexpr std::chrono::seconds kSentWithin{1};

// What a peer may give as its reason.
bool IsReason(uint64_t code) {
  if (code > static_cast<uint64_t>(StatusCode::kUnavailable)) {
    return false;
  }
  switch (static_cast<StatusCode>(code)) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kResourceExhausted:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnimplemented:
    case StatusCode::kInternal:
    case StatusCode::kUnavailable:
      return true;
    case StatusCode::kOk:
      break;
  }
  return false;
}

}  // namespace

Peers::Peers(uint32_t nodes, WaitPolicy policy, Disagree disagree, RankName name, LinkHold hold)
    : policy_(policy),
      disagree_(std::move(disagree)),
      name_(std::move(name)),
      hold_(hold),
      peers_(nodes) {
  sending_.reserve(nodes);
  polls_.reserve(nodes + size_t{1});
}

Peers::~Peers() {
  MessageHead bye;
  bye.kind = MessageKind::kBye;
  iovec part = {&bye, sizeof(bye)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  for (Peer& peer : peers_) {
    if (peer.socket.valid() && peer.out.empty()) {
      (void)peer.socket.Send(message);
    }
  }
  AwaitSent();
}

// Until the other machines have what was sent, or have taken none of it for a while.
void Peers::AwaitSent() {
  using Clock = std::chrono::steady_clock;
  uint64_t least = UINT64_MAX;
  auto until = Clock::now();
  for (uint32_t looks = 0; least > 0; ++looks) {
    uint64_t left = 0;
    bool last_word = false;  // why we fail: else it would be lost as the connection is closed
    for (Peer& peer : peers_) {
      if (peer.socket.valid()) {
        Skip(peer);
        left += peer.end.ok() || peer.has_last_word ? peer.socket.unsent() : 0;
        last_word = last_word || peer.has_last_word;
      }
    }
    const auto now = Clock::now();
    const Clock::duration within = last_word ? kLastWordWithin : Clock::duration(kSentWithin);
    until = left < least ? now + within : until;
    least = std::min(least, left);
    if (now >= until) {
      return;
    }
    (void)(looks < kLooks ? sched_yield() : poll(nullptr, 0, kShortNapMs));
  }
}

void Peers::Add(uint32_t node, uint32_t rank, UniqueFd fd) {
  peers_[node].socket = HeldSocket(std::move(fd), hold_);
  peers_[node].rank = rank;
}

void Peers::Begin(uint64_t call, const CallMark& mark) {
  last_ = head_;
  head_.call = call;
  head_.mark = mark;
  sends_ = 0;
  for (Peer& peer : peers_) {
    peer.told = false;
  }
}

Status Peers::Send(uint32_t node, const uint8_t* data, uint64_t bytes) {
  Peer& peer = peers_[node];
  Outgoing& out = Queue(peer);
  out.head.bytes = bytes;
  out.data = data;
  out.number = ++sends_;
  Progress();
  return peer.end;
}

// For `peer`, behind what is there. Throws, and has changed nothing, where no memory is left.
Peers::Outgoing& Peers::Queue(Peer& peer) {
  Outgoing& out = peer.out.emplace_back();
  out.head = head_;
  if (peer.out.size() == 1) {
    sending_.push_back(static_cast<uint32_t>(&peer - peers_.data()));  // it has room for all
  }
  return out;
}

bool Peers::Progress() {
  bool more = false;
  for (size_t i = 0; i < sending_.size();) {
    Peer& peer = peers_[sending_[i]];
    more |= SendPiece(peer);
    if (peer.out.empty()) {
      sending_[i] = sending_.back();
      sending_.pop_back();
    } else {
      ++i;
    }
  }
  return !sending_.empty() && more;
}

bool Peers::ProgressFar() {
  for (;;) {
    const uint64_t before = moved_;
    const bool more = Progress();
    if (!more || moved_ == before) {
      return more;
    }
  }
}

// False: the peer has ended.
bool Peers::SendPiece(Peer& peer) {
  if (!peer.end.ok()) {
    return false;
  }
  iovec parts[2 * kGathered];
  size_t count = 0;
  uint64_t room = kPiece;
  for (size_t i = 0; i < peer.out.size() && i < kGathered && room > 0; ++i) {
    Outgoing& out = peer.out[i];
    if (out.done < sizeof(out.head)) {
      parts[count++] = {reinterpret_cast<uint8_t*>(&out.head) + out.done,
                        sizeof(out.head) - out.done};
    }
    const uint64_t at = out.done > sizeof(out.head) ? out.done - sizeof(out.head) : 0;
    const uint64_t bytes = std::min(room, out.head.bytes - at);
    if (bytes > 0) {
      parts[count++] = {const_cast<uint8_t*>(out.data + at), bytes};
    }
    room -= bytes;
    if (at + bytes < out.head.bytes) {
      break;
    }
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  const ssize_t sent = peer.socket.Send(message);
  if (sent < 0) {
    if (IsMomentary(errno)) {
      return true;
    }
    HearLast(peer, errno);
    return false;
  }
  moved_ += static_cast<uint64_t>(sent);
  auto left = static_cast<uint64_t>(sent);
  while (left > 0) {
    Outgoing& out = peer.out.front();
    const uint64_t step = std::min(left, sizeof(out.head) + out.head.bytes - out.done);
    out.done += step;
    left -= step;
    if (out.done == sizeof(out.head) + out.head.bytes) {
      peer.out.pop_front();
    }
  }
  return true;
}

Status Peers::Receive(uint32_t node, uint8_t* data, uint64_t bytes, const GiveUp& give_up) {
  Peer& peer = peers_[node];
  const auto taken = [&] {
    Take(peer, data, bytes);
    return !verdict_.ok() || !peer.end.ok() || peer.done == sizeof(peer.head) + bytes;
  };
  Status waited = Wait(&peer, 0, taken, give_up);
  if (!verdict_.ok() || !peer.end.ok()) {
    return verdict_.ok() ? peer.end : verdict_;
  }
  peer.done = waited.ok() ? 0 : peer.done;
  return waited;
}

// As much as is there, at most a piece.
void Peers::Take(Peer& peer, uint8_t* data, uint64_t bytes) {
  if (!Hear(peer)) {
    return;
  }
  if (peer.head.call != head_.call || peer.head.mark != head_.mark || peer.head.bytes != bytes) {
    verdict_ = disagree_(peer.rank, peer.head);
    return;
  }
  const uint64_t at = peer.done - sizeof(peer.head);
  if (at < bytes) {
    Read(peer, data + at, std::min(bytes - at, kPiece));
  }
}

// Up to `bytes` more of the message that is coming. False: there is nothing now, or ever again.
bool Peers::Read(Peer& peer, void* to, uint64_t bytes) {
  const ssize_t got = peer.socket.Receive(to, bytes);
  if (got < 0 && IsMomentary(errno)) {
    return false;
  }
  if (got <= 0) {
    peer.end = EndOf(peer, got == 0 ? 0 : errno);
    return false;
  }
  moved_ += static_cast<uint64_t>(got);
  peer.done += static_cast<uint64_t>(got);
  return true;
}

// What `peer` says next, up to its data. False: that has not come, or nobody needs it any more.
bool Peers::Hear(Peer& peer) {
  for (;;) {
    if (!peer.end.ok() || !verdict_.ok()) {
      return false;
    }
    if (peer.done >= sizeof(peer.head)) {
      return true;
    }
    if (!Read(peer, reinterpret_cast<uint8_t*>(&peer.head) + peer.done,
              sizeof(peer.head) - peer.done)) {
      return false;
    }
    if (peer.done == sizeof(peer.head) && !IsData(peer)) {
      peer.done = 0;
    }
  }
}

// Of a head that has come whole; what is none of data is taken.
bool Peers::IsData(Peer& peer) {
  const MessageHead& head = peer.head;
  switch (head.magic == MessageHead::kMagic ? head.kind : MessageKind{}) {
    case MessageKind::kData:
      peer.heard = head.call;
      return true;
    case MessageKind::kWaiting: {
      peer.heard = head.call;
      // It is in the call that we are in, or were in.
      const MessageHead& ours = head.call == last_.call ? last_ : head_;
      if (head.call == ours.call && head.mark != ours.mark) {
        verdict_ = disagree_(peer.rank, head);
      }
      return false;
    }
    case MessageKind::kBye:
      peer.end = {StatusCode::kFailedPrecondition,
                  name_(peer.rank) + " has closed its communicator", static_cast<int>(peer.rank)};
      return false;
    case MessageKind::kFailure:
      if (!IsReason(head.call)) {
        break;
      }
      peer.end = verdict_ = {static_cast<StatusCode>(head.call), ReadSentence(peer),
                             static_cast<int>(head.mark.root - 1)};
      return false;
  }
  verdict_ = {StatusCode::kInternal,
              name_(peer.rank) + " speaks another protocol: use one libmuster"};
  return false;
}

std::string Peers::ReadSentence(Peer& peer) const {
  std::string out(std::min(peer.head.bytes, kFailureBytesMax), '\0');
  size_t have = 0;
  while (have < out.size()) {
    pollfd one = {peer.socket.fd(), POLLIN, 0};
    (void)poll(&one, 1, static_cast<int>(kLastWordWithin.count()));
    const ssize_t got = peer.socket.Receive(out.data() + have, out.size() - have);
    if (got <= 0) {
      break;
    }
    have += static_cast<size_t>(got);
  }
  out.resize(have);
  return have > 0 ? out : name_(peer.rank) + " has given up";
}

// Takes what has come, for nobody.
void Peers::Skip(Peer& peer) {
  std::array<uint8_t, 4096> waste{};
  while (Hear(peer)) {
    const uint64_t left = sizeof(peer.head) + peer.head.bytes - peer.done;
    if (left == 0) {
      peer.done = 0;
    } else if (!Read(peer, waste.data(), std::min<uint64_t>(left, waste.size()))) {
      break;
    }
  }
}

// Nothing can be sent to it any more, by `error`: why stands behind data that nobody needs now.
void Peers::HearLast(Peer& peer, int error) {
  Skip(peer);
  const bool said_so = !verdict_.ok() || peer.end.code() == StatusCode::kFailedPrecondition;
  if (!said_so) {
    peer.end = EndOf(peer, error);
  }
}

Status Peers::EndOf(const Peer& peer, int error) const {
  const std::string rank = name_(peer.rank);
  return {StatusCode::kUnavailable,
          error == 0 || error == EPIPE || error == ECONNRESET
              ? rank + " has died"
              : "the connection with " + rank + " broke: " + std::strerror(error),
          static_cast<int>(peer.rank)};
}

bool Peers::IsThrough(uint64_t sends) const {
  return std::all_of(sending_.begin(), sending_.end(),
                     [&](uint32_t node) { return peers_[node].out.front().number > sends; });
}

Status Peers::Flush(uint64_t sends, const GiveUp& give_up) {
  Status ended;
  const auto done = [&] {
    ended = Ended();
    return !ended.ok() || IsThrough(sends);
  };
  const Status waited = Wait(nullptr, sends, done, give_up);
  return ended.ok() ? waited : ended;
}

// Why what is being sent never gets through.
Status Peers::Ended() const {
  for (const uint32_t node : sending_) {
    if (verdict_.ok() && !peers_[node].end.ok()) {
      return peers_[node].end;
    }
  }
  return verdict_;
}

template <typename Done>
Status Peers::Wait(Peer* from, uint64_t sends, const Done& done, const GiveUp& give_up) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin;
  Clock::time_point since;
  Peer* whom = from;
  OurCore core = OurCore::kOwn;
  uint32_t looks = 0;
  for (bool first = true;; first = false) {
    const uint64_t before = moved_;
    Progress();
    if (done()) {
      if (!first) {
        whom->waited.Add(Clock::now() - since);
      }
      return {};
    }
    if (first || moved_ != before) {
      begin = Clock::now();
      since = first ? begin : since;
      whom = whom == nullptr ? &peers_[Blocking(sends)] : whom;
      core = first ? CoreSharedWith(whom->socket.fd()) : core;
      looks = 0;
      continue;
    }
    const auto waited = Clock::now() - begin;
    if (policy_.spins > 0 && core == OurCore::kOwn && waited < kSpin) {
      continue;
    }
    if (++looks % kLooks != 0 || !policy_.IsLong(waited, core)) {
      sched_yield();
    } else {
      Status status = Sleep(from, sends, give_up);
      const Clock::time_point now = Clock::now();
      whom->waited.Add(now - since);
      since = now;
      if (!status.ok()) {
        return status;
      }
    }
  }
}

Status Peers::Failure() {
  for (Peer& peer : peers_) {
    if (peer.socket.valid()) {
      Hear(peer);
    }
  }
  return verdict_;
}

}  // namespace muster
