#include "worker_sdk/transport/messages.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

// Asleep for no longer than this: what nobody wakes us for is seen then.
constexpr std::chrono::milliseconds kNap{10};
// Then a dead peer is looked for.
constexpr std::chrono::milliseconds kLookEvery{50};
// Pieces of a message that are moved at once: others want the lock, too.
constexpr int kMovesAtOnce = 32;
// At what a peer says, before the lock is let go of.
constexpr int kLooksAtOnce = 4;
// Where what moves next may be of several kinds, and we sleep for one of them.
constexpr std::chrono::milliseconds kShortNap{1};
constexpr std::chrono::milliseconds kGoodbyeWithin{100};

constexpr char kHeldBackHint[] = "; it has not received 16 MiB that were sent to it before";

const Status& Closed() {
  // Never destroyed: a communicator may be closed after the end of main().
  static const Status& closed =
      *new Status(StatusCode::kFailedPrecondition, "the communicator is closed");
  return closed;
}

}  // namespace

// Its lock is taken before that of one of them.
struct Messages::All {
  std::mutex mutex;
  std::vector<Messages*> messages;
};

Messages::Messages(Arena* arena, const Layout* layout, MessageSource* source)
    : arena_(arena),
      layout_(layout),
      source_(source),
      rank_(arena->RankOf(arena->place())),
      node_(layout->SeatOf(rank_).node) {
  All& all = TheAll();
  const std::lock_guard lock(all.mutex);
  all.messages.push_back(this);
}

Messages::~Messages() { Leave(); }

Messages::All& Messages::TheAll() {
  static All& all = *new All();  // never destroyed, as Closed()
  return all;
}

// Nobody calls Progress() any more.
void Messages::Leave() {
  All& all = TheAll();
  const std::lock_guard lock(all.mutex);
  std::erase(all.messages, this);
}

bool Messages::ProgressAll() {
  All& all = TheAll();
  const std::lock_guard lock(all.mutex);
  bool busy = false;
  for (Messages* const messages : all.messages) {
    busy |= messages->Progress();
  }
  return busy;
}

namespace {

Transfer Outgoing(uint32_t tag, DType dtype, const void* data, uint64_t bytes) {
  return {tag, dtype, bytes, static_cast<uint8_t*>(const_cast<void*>(data)), false, {}};
}

Transfer Incoming(uint32_t tag, DType dtype, void* data, uint64_t bytes) {
  return {tag, dtype, bytes, static_cast<uint8_t*>(data), false, {}};
}

}  // namespace

TransferPtr Messages::Send(uint32_t rank, uint32_t tag, DType dtype, const void* data,
                           uint64_t bytes) {
  return Begin(rank, Way::kSend, Outgoing(tag, dtype, data, bytes));
}

TransferPtr Messages::Receive(uint32_t rank, uint32_t tag, DType dtype, void* data,
                              uint64_t bytes) {
  return Begin(rank, Way::kReceive, Incoming(tag, dtype, data, bytes));
}

Status Messages::SendNow(uint32_t rank, uint32_t tag, DType dtype, const void* data, uint64_t bytes,
                         std::chrono::nanoseconds timeout) {
  return DoNow(rank, Way::kSend, Outgoing(tag, dtype, data, bytes), timeout);
}

Status Messages::ReceiveNow(uint32_t rank, uint32_t tag, DType dtype, void* data, uint64_t bytes,
                            std::chrono::nanoseconds timeout) {
  return DoNow(rank, Way::kReceive, Incoming(tag, dtype, data, bytes), timeout);
}

TransferPtr Messages::Begin(uint32_t rank, Way way, Transfer what) {
  auto transfer = std::make_shared<Transfer>(std::move(what));
  const std::lock_guard lock(mutex_);
  (void)BeginLocked(rank, way, transfer);
  return transfer;
}

Status Messages::DoNow(uint32_t rank, Way way, Transfer what, std::chrono::nanoseconds timeout) {
  // It owns nothing: a conversation forgets what has ended, and until then we are here.
  const TransferPtr transfer(TransferPtr(), &what);
  std::unique_lock lock(mutex_);
  Peer& peer = BeginLocked(rank, way, transfer);
  return WaitLocked(rank, peer, transfer, timeout, std::move(lock));
}

Messages::Peer& Messages::BeginLocked(uint32_t rank, Way way, const TransferPtr& transfer) {
  Peer& peer = PeerOf(rank);
  if (way == Way::kSend) {
    peer.conversation.Send(transfer);
  } else {
    peer.conversation.Receive(transfer);
  }
  Pump(rank, peer);
  if (way == Way::kSend && !transfer->ended) {
    peer.conversation.Keep();
  }
  Activate(rank, peer);
  return peer;
}

// As long as there is something to do for it.
void Messages::Activate(uint32_t rank, Peer& peer) {
  if (!peer.active && peer.conversation.open()) {
    peer.active = true;
    active_.push_back(rank);
    idle_.store(false, std::memory_order_relaxed);
  }
}

Messages::Peer& Messages::PeerOf(uint32_t rank) {
  if (const auto at = peers_.find(rank); at != peers_.end()) {
    return at->second;
  }
  Peer& peer = peers_.try_emplace(rank, layout_->NameOf(rank)).first->second;
  const Layout::Seat seat = layout_->SeatOf(rank);
  if (rank == rank_) {
    peer.channel = ToOneself();
  } else if (seat.node == node_) {
    peer.place = seat.place;
    if (direct_ != nullptr) {
      peer.conversation.AllowPulls();
    }
  }
  return peer;
}

bool Messages::Progress() {
  if (idle_.load(std::memory_order_relaxed)) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  ProgressLocked();
  return !active_.empty();
}

bool Messages::ProgressLocked() {
  bool moved = false;
  for (size_t i = 0; i < active_.size();) {
    Peer& peer = peers_.at(active_[i]);
    moved |= Pump(active_[i], peer);
    if (peer.conversation.open()) {
      ++i;
      continue;
    }
    peer.active = false;
    active_[i] = active_.back();
    active_.pop_back();
  }
  idle_.store(active_.empty(), std::memory_order_relaxed);
  return moved;
}

bool Messages::Pump(uint32_t rank, Peer& peer) {
  if (peer.conversation.ended() || (!peer.channel && !Connect(rank, peer))) {
    return false;
  }
  bool moved = MovePull(peer);
  ByteChannel::Moved in;
  ByteChannel::Moved out;
  bool more = true;
  for (int i = 0; more && i < kMovesAtOnce; ++i) {
    const bool went = !out.ended && MoveOut(peer, out);
    const bool came = MoveIn(peer, in);
    more = went || came;
    moved |= more;
  }
  if (in.ended || out.ended) {
    peer.conversation.End(GoneStatus(rank, in.ended ? in : out));
  } else if (peer.conversation.ended()) {
    peer.channel->Abort();  // it said goodbye, or nonsense
  }
  return moved;
}

Status Messages::GoneStatus(uint32_t rank, const ByteChannel::Moved& last) const {
  const std::string name = layout_->NameOf(rank);
  return {StatusCode::kUnavailable,
          last.error == 0 ? name + " has died"
                          : "the connection with " + name + " broke: " + std::strerror(last.error)};
}

bool Messages::MoveOut(Peer& peer, ByteChannel::Moved& last) {
  const auto pieces = peer.conversation.NextOut();
  if (pieces[0].bytes + pieces[1].bytes == 0) {
    return false;
  }
  last = peer.channel->Write(pieces);
  if (last.bytes == 0) {
    return false;
  }
  peer.conversation.Wrote(last.bytes);
  return true;
}

bool Messages::MoveIn(Peer& peer, ByteChannel::Moved& last) {
  const Conversation::Room room = peer.conversation.NextIn();
  if (room.bytes == 0) {
    return false;
  }
  last = peer.channel->Read(room.data, room.bytes);
  if (last.bytes == 0) {
    return false;
  }
  peer.conversation.Took(last.bytes);
  return true;
}

// Where it fails, the sender may have died: LookAround() finds that out.
bool Messages::MovePull(Peer& peer) {
  const Conversation::Pull pull = peer.conversation.NextPull();
  if (pull.bytes == 0) {
    return false;
  }
  const Status status = direct_->Read(*peer.place, pull.data, pull.address, pull.bytes);
  if (status.ok() && !peer.channel->withdrawn()) {
    peer.conversation.Pulled(pull.bytes);
  } else {
    peer.conversation.PullFailed();
  }
  return true;
}

// Whether there is a channel.
bool Messages::Connect(uint32_t rank, Peer& peer) {
  if (!peer.sought) {
    peer.sought = true;
    if (const Status status = source_->Seek(rank); !status.ok()) {
      peer.conversation.End(status);
      return false;
    }
  }
  std::optional<StatusOr<UniqueFd>> fd = source_->Take(rank);
  if (!fd.has_value()) {
    return false;
  }
  if (!fd->ok()) {
    peer.conversation.End(fd->status());
    return false;
  }
  if (peer.place.has_value()) {
    const auto ring = [this, place = *peer.place] { arena_->Ring(place); };
    peer.channel = OverPipe(**fd, rank_ < rank, ring);
  } else {
    peer.channel = OverSocket(*std::move(*fd));
  }
  if (!peer.channel) {
    peer.conversation.End({StatusCode::kInternal, "what the agent handed out is no pipe"});
  }
  return peer.channel != nullptr;
}

void Messages::LookAround() {
  const std::lock_guard lock(mutex_);
  for (const uint32_t rank : active_) {
    Peer& peer = peers_.at(rank);
    const LineEnd end = peer.place.has_value() ? arena_->EndOf(*peer.place) : LineEnd::kNone;
    if (end == LineEnd::kNone || !peer.channel) {
      continue;
    }
    Pump(rank, peer);  // what it said before
    peer.conversation.End(end == LineEnd::kDied
                              ? GoneStatus(rank, {})
                              : Status(StatusCode::kFailedPrecondition,
                                       layout_->NameOf(rank) + " has closed its communicator"));
  }
}

bool Messages::Test(const TransferPtr& transfer) {
  bool moved = false;
  return Ended(transfer, &moved);
}

bool Messages::Ended(const TransferPtr& transfer, bool* moved) {
  const std::lock_guard lock(mutex_);
  *moved = !transfer->ended && !closed_ && ProgressLocked();
  return transfer->ended;
}

Status Messages::Wait(uint32_t rank, const TransferPtr& transfer,
                      std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return WaitLocked(rank, PeerOf(rank), transfer, timeout, std::move(lock));
}

Status Messages::WaitLocked(uint32_t rank, Peer& peer, const TransferPtr& transfer,
                            std::chrono::nanoseconds timeout, std::unique_lock<std::mutex> lock) {
  if (!transfer->ended) {
    ++waiting_;
    Spin(rank, peer, transfer, lock);
    if (!transfer->ended) {
      lock.unlock();
      WaitLong(rank, transfer, timeout);
      lock.lock();
    }
    --waiting_;
  }
  return transfer->status;
}

void Messages::Spin(uint32_t rank, Peer& peer, const TransferPtr& transfer,
                    std::unique_lock<std::mutex>& lock) {
  for (uint32_t i = 0; i < arena_->policy().spins && !transfer->ended && !closed_; ++i) {
    for (int look = 0; look < kLooksAtOnce && !transfer->ended; ++look) {
      Pump(rank, peer);
    }
    if (!transfer->ended) {
      ProgressLocked();
      lock.unlock();
      Arena::Pause();
      lock.lock();
    }
  }
}

void Messages::WaitLong(uint32_t rank, const TransferPtr& transfer,
                        std::chrono::nanoseconds timeout) {
  const WaitPolicy& policy = arena_->policy();
  bool moved = false;
  const auto begin = Clock::now();
  auto last_moved = begin;
  auto looked = begin;
  std::chrono::minutes told{0};
  while (!Ended(transfer, &moved)) {
    auto now = Clock::now();
    if (moved) {
      last_moved = now;
    } else if (now - last_moved < policy.yields) {
      sched_yield();
    } else {
      Sleep(rank, transfer);
      now = Clock::now();
    }
    if (now - looked < kLookEvery) {
      continue;
    }
    looked = now;
    LookAround();
    const auto waited = now - begin;
    if (timeout.count() != 0 && waited >= timeout) {
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
      GiveUpOn(rank, transfer,
               {StatusCode::kDeadlineExceeded, layout_->NameOf(rank) + " did not come within " +
                                                   std::to_string(ms) +
                                                   " ms (MUSTER_TIMEOUT, SetTimeout)"});
    } else if (const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(waited);
               minutes > told) {
      told = minutes;
      std::fprintf(stderr, "muster: %s has waited for %s for %ld min: a message with tag %u%s\n",
                   layout_->NameOf(rank_).c_str(), layout_->NameOf(rank).c_str(),
                   static_cast<long>(minutes.count()), transfer->tag,
                   IsHeldBack(rank, transfer) ? kHeldBackHint : "");
    }
  }
}

bool Messages::IsHeldBack(uint32_t rank, const TransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  return peers_.at(rank).conversation.is_held_back(transfer);
}

void Messages::GiveUpOn(uint32_t rank, const TransferPtr& transfer, const Status& why) {
  const std::lock_guard lock(mutex_);
  if (!transfer->ended) {
    Peer& peer = peers_.at(rank);
    peer.conversation.Abandon(transfer, why);
    if (peer.channel && peer.conversation.ended()) {
      peer.channel->Abort();
    }
  }
}

// Until something can move, for a moment at most.
void Messages::Sleep(uint32_t rank, const TransferPtr& transfer) {
  std::vector<pollfd> sockets;
  bool pipes = false;
  bool missing = false;  // connections
  bool for_pipe = false;
  (void)ProgressAll();
  {
    const std::lock_guard lock(mutex_);
    for (const uint32_t active : active_) {
      const Peer& peer = peers_.at(active);
      const bool is_socket = peer.channel && peer.channel->fd() >= 0;
      pipes |= peer.channel && !is_socket;
      missing |= !peer.channel;
      if (is_socket) {
        const auto events = static_cast<int16_t>((peer.conversation.hears() ? POLLIN : 0) |
                                                 (peer.conversation.has_out() ? POLLOUT : 0));
        sockets.push_back({events != 0 ? peer.channel->fd() : -1, events, 0});
      }
      for_pipe |= active == rank && peer.channel && !is_socket;
    }
  }
  const bool mixed = missing || (pipes && !sockets.empty());
  const std::chrono::milliseconds nap = mixed ? kShortNap : kNap;
  if (!for_pipe) {
    (void)poll(sockets.data(), sockets.size(), static_cast<int>(nap.count()));
    return;
  }
  arena_->SleepUntilRing(nap, [&] {
    const std::lock_guard lock(mutex_);
    return ProgressLocked() || transfer->ended;
  });
}

// Whether anything has moved; `done`: nothing is left to be sent.
bool Messages::Flush(bool* done) {
  const std::lock_guard lock(mutex_);
  const bool moved = ProgressLocked();
  *done = std::none_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    return peer.second.conversation.sends() && !peer.second.conversation.ended();
  });
  return moved;
}

void Messages::Close(std::chrono::nanoseconds within) {
  Leave();
  // For as long as something moves now and then.
  const auto flush = [this](std::chrono::nanoseconds limit) {
    auto moved = Clock::now();
    for (bool done = false; !done;) {
      const bool moves = Flush(&done);
      const auto now = Clock::now();
      moved = moves ? now : moved;
      if (done || now - moved >= limit) {
        return done;
      }
      if (now - moved < kShortNap) {
        sched_yield();
      } else {
        LookAround();
        std::this_thread::sleep_for(kShortNap);
      }
    }
    return true;
  };
  const bool flushed = flush(within);
  {
    const std::lock_guard lock(mutex_);
    for (auto& [rank, peer] : peers_) {
      if (!flushed && peer.conversation.sends() && !peer.conversation.ended()) {
        std::fprintf(
            stderr,
            "muster: %s closes its communicator, and %s has not received all that was sent "
            "to it\n",
            layout_->NameOf(rank_).c_str(), layout_->NameOf(rank).c_str());
      }
      peer.conversation.Close(Closed());
      if (peer.channel) {
        peer.channel->Withdraw();
      } else {
        peer.conversation.End(Closed());
      }
      Activate(rank, peer);
    }
  }
  (void)flush(kGoodbyeWithin);
  std::unique_lock lock(mutex_);
  closed_ = true;
  for (auto& [rank, peer] : peers_) {
    peer.conversation.End(Closed());
    peer.channel.reset();
  }
  active_.clear();
  idle_.store(true, std::memory_order_relaxed);
  while (waiting_ > 0) {  // for a nap at most
    lock.unlock();
    std::this_thread::sleep_for(kShortNap);
    lock.lock();
  }
}

}  // namespace muster
