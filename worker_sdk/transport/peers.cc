#include "worker_sdk/transport/peers.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace muster {
namespace {

// Moved at once in one direction: the other has its turn then, while the data is in the cache.
constexpr uint64_t kPiece = 32u << 10;
// Messages that one system call sends: a node's slots go out as one message each.
constexpr size_t kGathered = 16;
constexpr int kNapMs = 50;  // then whoever waits looks around
constexpr std::chrono::microseconds kSpin{5};
constexpr std::chrono::milliseconds kLastWordWithin{100};
constexpr uint64_t kFailureBytesMax = 1024;

Status Died(uint32_t rank) {
  return {StatusCode::kUnavailable, "rank " + std::to_string(rank) + " has died"};
}

Status Closed(uint32_t rank) {
  return {StatusCode::kFailedPrecondition,
          "rank " + std::to_string(rank) + " has closed its communicator"};
}

bool IsMomentary(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Peers::Peers(uint32_t nodes, WaitPolicy policy, Disagree disagree)
    : policy_(policy), disagree_(std::move(disagree)), peers_(nodes) {}

Peers::~Peers() {
  MessageHead bye;
  bye.kind = MessageKind::kBye;
  for (Peer& peer : peers_) {
    if (peer.fd.valid() && peer.out.empty()) {
      [[maybe_unused]] const ssize_t sent =
          send(peer.fd.get(), &bye, sizeof(bye), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  }
}

void Peers::Add(uint32_t node, uint32_t rank, UniqueFd fd) {
  peers_[node].fd = std::move(fd);
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
  if (peer.out.empty()) {
    sending_.push_back(node);
  }
  Outgoing& out = peer.out.emplace_back();
  out.head = head_;
  out.head.bytes = bytes;
  out.data = data;
  out.number = ++sends_;
  Progress();
  return peer.broken;
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

// False: the connection is broken.
bool Peers::SendPiece(Peer& peer) {
  if (!peer.broken.ok()) {
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
  const ssize_t sent = sendmsg(peer.fd.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) {
    if (IsMomentary(errno)) {
      return true;
    }
    const int error = errno;
    const Status said = LastWord(peer);
    peer.broken = said.ok() ? EndOf(peer, error) : said;
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

Status Peers::EndOf(const Peer& peer, int error) {
  return error == 0 || error == EPIPE || error == ECONNRESET
             ? Died(peer.rank)
             : Status(StatusCode::kUnavailable, "the connection with rank " +
                                                    std::to_string(peer.rank) +
                                                    " broke: " + std::strerror(error));
}

Status Peers::Receive(uint32_t node, uint8_t* data, uint64_t bytes, const GiveUp& give_up) {
  Peer& peer = peers_[node];
  peer.done = 0;
  Status status;
  const auto taken = [&] {
    status = Take(peer, data, bytes);
    return !status.ok() || peer.done == sizeof(peer.head) + bytes;
  };
  const Status waited = Wait(&peer, 0, taken, give_up);
  if (!status.ok() || !waited.ok()) {
    return status.ok() ? waited : status;
  }
  peer.done = 0;
  return {};
}

// As much as is there, at most a piece.
Status Peers::Take(Peer& peer, uint8_t* data, uint64_t bytes) {
  iovec parts[2];
  size_t count = 0;
  if (peer.done < sizeof(peer.head)) {
    parts[count++] = {reinterpret_cast<uint8_t*>(&peer.head) + peer.done,
                      sizeof(peer.head) - peer.done};
  }
  const uint64_t at = peer.done > sizeof(peer.head) ? peer.done - sizeof(peer.head) : 0;
  if (bytes > at) {
    parts[count++] = {data + at, std::min(bytes - at, kPiece)};
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  const ssize_t got = recvmsg(peer.fd.get(), &message, MSG_DONTWAIT);
  if (got < 0 && IsMomentary(errno)) {
    return peer.broken;
  }
  if (got <= 0) {
    return peer.broken.ok() ? EndOf(peer, got == 0 ? 0 : errno) : peer.broken;
  }
  moved_ += static_cast<uint64_t>(got);
  const bool had_head = peer.done >= sizeof(peer.head);
  peer.done += static_cast<uint64_t>(got);
  while (!had_head && peer.done >= sizeof(peer.head) && peer.head.magic == MessageHead::kMagic &&
         peer.head.kind == MessageKind::kWaiting) {
    if (Status same = Compare(peer, peer.head); !same.ok()) {
      return same;
    }
    Skip(peer, data);
  }
  return had_head || peer.done < sizeof(peer.head) ? Status() : Judge(peer, data, bytes);
}

// A message that is a head alone has come, and what follows it lies in `data`.
void Peers::Skip(Peer& peer, uint8_t* data) {
  peer.done -= sizeof(peer.head);
  if (peer.done > 0) {
    const uint64_t of_head = std::min<uint64_t>(peer.done, sizeof(peer.head));
    std::memcpy(&peer.head, data, of_head);
    std::memmove(data, data + of_head, peer.done - of_head);
  }
}

// A rank that waits for us is in the call that we are in, or were in.
Status Peers::Compare(const Peer& peer, const MessageHead& head) const {
  const MessageHead& ours = head.call == last_.call ? last_ : head_;
  return head.call != ours.call || head.mark == ours.mark ? Status() : disagree_(peer.rank, head);
}

// A head has come whole, and with it the beginning of `data`.
Status Peers::Judge(const Peer& peer, const uint8_t* data, uint64_t bytes) const {
  const MessageHead& head = peer.head;
  if (head.magic != MessageHead::kMagic) {
    return {StatusCode::kInternal,
            "rank " + std::to_string(peer.rank) + " speaks another protocol: use one libmuster"};
  }
  if (head.kind != MessageKind::kData) {
    return WordOf(peer, std::string(reinterpret_cast<const char*>(data), peer.done - sizeof(head)));
  }
  if (head.call != head_.call || head.mark != head_.mark || head.bytes != bytes) {
    return disagree_(peer.rank, head);
  }
  return {};
}

// The peer's head is no data's; `text`: as much of its sentence as is here.
Status Peers::WordOf(const Peer& peer, std::string text) {
  if (peer.head.kind == MessageKind::kBye) {
    return Closed(peer.rank);
  }
  const uint64_t want = std::min(peer.head.bytes, kFailureBytesMax);
  text.resize(std::min<uint64_t>(text.size(), want));
  while (text.size() < want) {
    char more[kFailureBytesMax];
    pollfd one = {peer.fd.get(), POLLIN, 0};
    (void)poll(&one, 1, static_cast<int>(kLastWordWithin.count()));
    const ssize_t got = recv(peer.fd.get(), more, want - text.size(), MSG_DONTWAIT);
    if (got <= 0) {
      break;
    }
    text.append(more, static_cast<size_t>(got));
  }
  return {static_cast<StatusCode>(peer.head.call), text};
}

// What a peer to which nothing can be sent any more has said last, behind data that nobody needs
// now. OK: nothing.
Status Peers::LastWord(Peer& peer) {
  std::vector<uint8_t> waste(kPiece);
  for (;;) {
    const bool in_head = peer.done < sizeof(peer.head);
    const uint64_t all = sizeof(peer.head) + (in_head ? 0 : peer.head.bytes);
    if (!in_head && peer.done == all) {
      peer.done = 0;
      continue;
    }
    void* const to = in_head ? reinterpret_cast<uint8_t*>(&peer.head) + peer.done : waste.data();
    const ssize_t got =
        recv(peer.fd.get(), to, std::min<uint64_t>(all - peer.done, kPiece), MSG_DONTWAIT);
    if (got <= 0) {
      return {};
    }
    peer.done += static_cast<uint64_t>(got);
    if (in_head && peer.done == sizeof(peer.head)) {
      if (peer.head.magic != MessageHead::kMagic) {
        return {};
      }
      if (peer.head.kind == MessageKind::kFailure || peer.head.kind == MessageKind::kBye) {
        return WordOf(peer, "");
      }
    }
  }
}

// What a peer says next, if it is no data; it stays there, unless it only waits for us.
// `only_failures`: that it has ended is no error for us yet.
Status Peers::Waiting(Peer& peer, bool only_failures) {
  uint8_t bytes[sizeof(MessageHead) + kFailureBytesMax];
  if (peer.done != 0) {
    return {};  // in the middle of a message
  }
  const ssize_t got = recv(peer.fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT | MSG_PEEK);
  MessageHead head;
  if (got < static_cast<ssize_t>(sizeof(head))) {
    return got == 0 && !only_failures ? Died(peer.rank) : Status();
  }
  std::memcpy(&head, bytes, sizeof(head));
  if (head.magic != MessageHead::kMagic || head.kind == MessageKind::kData) {
    return {};
  }
  if (head.kind == MessageKind::kWaiting) {
    (void)recv(peer.fd.get(), bytes, sizeof(head),
               MSG_DONTWAIT);  // what is behind it counts next time
    return Compare(peer, head);
  }
  if (head.kind == MessageKind::kBye) {
    return only_failures ? Status() : Closed(peer.rank);
  }
  const uint64_t said = std::min<uint64_t>(head.bytes, static_cast<uint64_t>(got) - sizeof(head));
  return {static_cast<StatusCode>(head.call),
          std::string(reinterpret_cast<const char*>(bytes) + sizeof(head), said)};
}

bool Peers::IsThrough(uint64_t sends) const {
  return std::all_of(sending_.begin(), sending_.end(),
                     [&](uint32_t node) { return peers_[node].out.front().number > sends; });
}

Status Peers::Flush(uint64_t sends, const GiveUp& give_up) {
  Status status;
  const auto done = [&] {
    for (const uint32_t node : sending_) {
      if (!peers_[node].broken.ok()) {
        status = peers_[node].broken;
      }
    }
    return !status.ok() || IsThrough(sends);
  };
  const Status waited = Wait(nullptr, sends, done, give_up);
  return status.ok() ? waited : status;
}

template <typename Done>
Status Peers::Wait(Peer* from, uint64_t sends, const Done& done, const GiveUp& give_up) {
  using Clock = std::chrono::steady_clock;
  const auto limit = policy_.yields + (policy_.spins > 0 ? kSpin : std::chrono::microseconds(0));
  Clock::time_point begin;
  for (bool first = true;; first = false) {
    const uint64_t before = moved_;
    Progress();
    if (done()) {
      return {};
    }
    if (first || moved_ != before) {
      begin = Clock::now();
      continue;
    }
    const auto waited = Clock::now() - begin;
    if (waited >= limit) {
      if (Status status = Sleep(from, sends, give_up); !status.ok()) {
        return status;
      }
    } else if (policy_.spins == 0 || waited >= kSpin) {
      sched_yield();
    }
  }
}

// Until something can move, for a moment at most.
Status Peers::Sleep(Peer* from, uint64_t sends, const GiveUp& give_up) {
  std::vector<pollfd> polls;
  if (from != nullptr) {
    polls.push_back({from->fd.get(), POLLIN, 0});
  }
  for (const uint32_t node : sending_) {
    if (peers_[node].broken.ok()) {
      polls.push_back({peers_[node].fd.get(), POLLOUT, 0});
    }
  }
  if (poll(polls.data(), polls.size(), kNapMs) > 0) {
    return {};
  }
  for (const uint32_t node : sending_) {
    Peer& peer = peers_[node];
    peer.broken = peer.broken.ok() ? Waiting(peer, false) : peer.broken;
    if (!peer.broken.ok()) {
      return peer.broken;
    }
  }
  if (from != nullptr) {
    TellWaiting(*from);
  }
  return give_up(from != nullptr ? from->rank : Blocking(sends));
}

// Of a rank that has not taken one of the first `sends`.
uint32_t Peers::Blocking(uint64_t sends) const {
  for (const uint32_t node : sending_) {
    if (peers_[node].out.front().number <= sends) {
      return peers_[node].rank;
    }
  }
  return 0;
}

void Peers::TellWaiting(Peer& peer) {
  if (!peer.told && peer.out.empty() && peer.broken.ok()) {
    peer.told = true;
    sending_.push_back(static_cast<uint32_t>(&peer - peers_.data()));
    Outgoing& out = peer.out.emplace_back();
    out.head = head_;
    out.head.kind = MessageKind::kWaiting;
  }
}

Status Peers::Failure() {
  for (Peer& peer : peers_) {
    if (peer.fd.valid()) {
      if (Status said = Waiting(peer, true); !said.ok()) {
        return said;
      }
    }
  }
  return {};
}

void Peers::Fail(StatusCode code, const std::string& why) {
  const auto until = std::chrono::steady_clock::now() + kLastWordWithin;
  MessageHead head;
  head.kind = MessageKind::kFailure;
  head.call = static_cast<uint64_t>(code);
  head.bytes = std::min<uint64_t>(why.size(), kFailureBytesMax);
  for (Peer& peer : peers_) {
    if (!peer.fd.valid() || !peer.broken.ok()) {
      continue;
    }
    // What has not begun need not be sent any more.
    while (!peer.out.empty() && peer.out.back().done == 0) {
      peer.out.pop_back();
    }
    peer.out.push_back({head, reinterpret_cast<const uint8_t*>(why.data()), 0, 0});
    while (!peer.out.empty() && SendPiece(peer) && std::chrono::steady_clock::now() < until) {
      pollfd one = {peer.fd.get(), POLLOUT, 0};
      (void)poll(&one, 1, 1);
    }
    peer.out.clear();
    peer.broken = Status(code, why);
    shutdown(peer.fd.get(), SHUT_WR);
  }
  sending_.clear();
}

}  // namespace muster
