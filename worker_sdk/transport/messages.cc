#include "worker_sdk/transport/messages.h"

#include <pthread.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "worker_sdk/base/at_end.h"
#include "worker_sdk/base/no_memory.h"

namespace muster {
namespace {

// Pieces of a message that are moved at once: others want the lock, too.
constexpr int kMovesAtOnce = 32;

}  // namespace

// Its lock is taken before that of one of them.
struct Messages::All {
  std::mutex mutex;
  std::vector<Messages*> messages;
  Mover mover{[this] {
    const std::lock_guard lock(mutex);
    Mover::Pushed all;
    for (Messages* const one : messages) {
      const Mover::Pushed pushed = one->PushOut();
      all = {all.moved || pushed.moved, all.more || pushed.more};
    }
    return all;
  }};
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
  // Never destroyed: a communicator may be closed after the end of main(). A child by fork() has
  // none of its parent's threads, one of which may have held the lock.
  static All* all = new All();
  static const int once = pthread_atfork(nullptr, nullptr, [] { all = new All(); });
  (void)once;  // without memory for it, a child has its parent's
  return *all;
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
  return {tag, dtype, bytes, static_cast<uint8_t*>(const_cast<void*>(data))};
}

Transfer Incoming(uint32_t rank, uint32_t tag, DType dtype, void* data, uint64_t bytes) {
  Transfer out = {tag, dtype, bytes, static_cast<uint8_t*>(data)};
  out.any = rank == Messages::kAny;
  return out;
}

}  // namespace

TransferPtr Messages::Send(uint32_t rank, uint32_t tag, DType dtype, const void* data,
                           uint64_t bytes) {
  return Begin(rank, Way::kSend, Outgoing(tag, dtype, data, bytes));
}

TransferPtr Messages::Receive(uint32_t rank, uint32_t tag, DType dtype, void* data,
                              uint64_t bytes) {
  return Begin(rank, Way::kReceive, Incoming(rank, tag, dtype, data, bytes));
}

Status Messages::SendNow(uint32_t rank, uint32_t tag, DType dtype, const void* data, uint64_t bytes,
                         std::chrono::nanoseconds timeout) {
  return DoNow(rank, Way::kSend, Outgoing(tag, dtype, data, bytes), timeout);
}

Status Messages::ReceiveNow(uint32_t rank, uint32_t tag, DType dtype, void* data, uint64_t bytes,
                            std::chrono::nanoseconds timeout) {
  return DoNow(rank, Way::kReceive, Incoming(rank, tag, dtype, data, bytes), timeout);
}

TransferPtr Messages::Begin(uint32_t rank, Way way, Transfer what) {
  auto transfer = std::make_shared<Transfer>(std::move(what));
  const std::lock_guard lock(mutex_);
  (void)BeginLocked(rank, way, transfer);
  return transfer;
}

Status Messages::DoNow(uint32_t rank, Way way, Transfer what, std::chrono::nanoseconds timeout) {
  // It owns nothing: a conversation forgets what has ended, and until then we are here. But of any
  // rank: the others' conversations may forget it later.
  const TransferPtr transfer = rank == kAny ? std::make_shared<Transfer>(std::move(what))
                                            : TransferPtr(TransferPtr(), &what);
  const AtEnd give_up([&] {
    if (!transfer->ended) {  // an exception ends us
      GiveUpOn(rank, transfer, NoMemory());
    }
  });
  std::unique_lock lock(mutex_);
  Peer* const peer = BeginLocked(rank, way, transfer);
  return WaitLocked(rank, peer, transfer, timeout, std::move(lock));
}

Messages::Peer* Messages::BeginLocked(uint32_t rank, Way way, const TransferPtr& transfer) {
  if (rank == kAny) {
    ReceiveOfAny(transfer);
    return nullptr;
  }
  Peer& peer = PeerOf(rank);
  if (!dropped_.ok()) {
    peer.conversation.End(dropped_);
  }
  if (way == Way::kSend) {
    peer.conversation.Send(transfer);
  } else {
    peer.conversation.Receive(transfer);
  }
  Pump(rank, peer);
  if (way == Way::kSend && !transfer->ended) {
    // Without memory for it, it ends when it has left.
    WithMemory([&] { peer.conversation.Keep(transfer); }, [] {});
  }
  Activate(rank, peer);
  if (way == Way::kSend && peer.conversation.has_out()) {
    TheAll().mover.Ask();
  }
  return &peer;
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
  Peer& peer = peers_.try_emplace(rank, layout_->NameOf(rank), rank).first->second;
  owing_.reserve(peers_.size());  // who gives up may have no memory left
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

// Only for those who are sent something: nobody else's receives go on by themselves. Who is here
// moves it himself.
Mover::Pushed Messages::PushOut() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return {false, true};
  }
  Mover::Pushed out;
  for (const uint32_t rank : active_) {
    Peer& peer = peers_.at(rank);
    if (peer.conversation.has_out()) {
      out.moved |= waiting_ == 0 && Pump(rank, peer);
      out.more |= peer.conversation.has_out();
    }
  }
  SettleAny();
  return out;
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
  AbortOwed();
  idle_.store(active_.empty() && owing_.empty(), std::memory_order_relaxed);
  SettleAny();
  return moved;
}

void Messages::Abort(Peer& peer) {
  if (peer.channel->fd() >= 0) {  // through memory Abort() itself says it
    (void)peer.channel->Write(peer.conversation.LastWord());
  }
  peer.channel->Abort();
}

// Of a conversation that has ended here.
void Messages::TellOfEnd(uint32_t rank, Peer& peer) {
  if (peer.channel) {
    Abort(peer);
  } else if (peer.sought && !peer.owed) {
    peer.owed = true;
    owing_.push_back(rank);
    idle_.store(false, std::memory_order_relaxed);
  }
}

void Messages::AbortOwed() {
  std::erase_if(owing_, [this](uint32_t rank) {
    Peer& peer = peers_.at(rank);
    const auto take = [&] {
      const std::optional<Status> taken = TakeChannel(rank, peer);
      if (taken.has_value() && taken->ok()) {
        Abort(peer);
      }
      return taken.has_value();
    };
    return WithMemory(take, [] { return true; });
  });
}

// Whether anything has moved. Where no memory is left, that was the end of what the two say.
bool Messages::Pump(uint32_t rank, Peer& peer) {
  return WithMemory(
      [&] {
        return !peer.conversation.ended() && (peer.channel || Connect(rank, peer)) &&
               Move(rank, peer);
      },
      [&] {
        peer.conversation.End(NoMemory());
        TellOfEnd(rank, peer);
        return false;
      });
}

bool Messages::Move(uint32_t rank, Peer& peer) {
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
  if (out.ended && !in.ended) {
    peer.conversation.HearAll();
    while (MoveIn(peer, in)) {
      // What it said before, maybe a goodbye.
    }
  }
  if ((in.ended || out.ended) && !peer.conversation.ended()) {
    peer.conversation.End(GoneStatus(rank, peer, in.ended ? in : out));
  } else if (peer.conversation.ended()) {
    peer.channel->Abort();  // it said goodbye, or nonsense
  }
  return moved;
}

Status Messages::GoneStatus(uint32_t rank, const Peer& peer, const ByteChannel::Moved& last) const {
  if (last.error == ECANCELED) {  // ByteChannel::Abort() on the other side
    return peer.conversation.GaveUp();
  }
  const std::string name = layout_->NameOf(rank);
  std::string why = "the connection with " + name + " broke: " + std::strerror(last.error);
  if (last.error == 0) {
    why = name + " has died";
  }
  return {StatusCode::kUnavailable, why, static_cast<int>(rank)};
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
      EndUnconnected(rank, peer, status);
      return false;
    }
  }
  const std::optional<Status> taken = TakeChannel(rank, peer);
  if (taken.has_value() && !taken->ok()) {
    EndUnconnected(rank, peer, *taken);
  }
  return peer.channel != nullptr;
}

// Who closes well is no failure, whether the two have talked before or not.
void Messages::EndUnconnected(uint32_t rank, Peer& peer, const Status& why) {
  const bool closed = peer.place.has_value() && arena_->EndOf(*peer.place) == LineEnd::kClosed;
  peer.conversation.End(closed ? HasClosed(rank) : why);
}

Status Messages::HasClosed(uint32_t rank) const {
  return {StatusCode::kFailedPrecondition, layout_->NameOf(rank) + " has closed its communicator",
          static_cast<int>(rank)};
}

std::optional<Status> Messages::TakeChannel(uint32_t rank, Peer& peer) {
  std::optional<StatusOr<UniqueFd>> fd = source_->Take(rank);
  if (!fd.has_value()) {
    return std::nullopt;
  }
  if (!fd->ok()) {
    return fd->status();
  }
  if (peer.place.has_value()) {
    const auto ring = [this, place = *peer.place] { arena_->Ring(place); };
    peer.channel = OverPipe(**fd, rank_ < rank, ring);
  } else {
    peer.channel = OverSocket(HeldSocket(*std::move(*fd), arena_->hold()));
  }
  if (!peer.channel) {
    return Status(StatusCode::kInternal, "what the agent handed out is no pipe");
  }
  return Status();
}

void Messages::LookAround() {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    return;  // and the arena may be gone
  }
  arena_->Watch();
  const Status over = arena_->over();
  for (const uint32_t rank : active_) {
    Peer& peer = peers_.at(rank);
    if (!over.ok()) {
      peer.conversation.End(over);
      continue;
    }
    const LineEnd end = peer.place.has_value() ? arena_->EndOf(*peer.place) : LineEnd::kNone;
    if (end == LineEnd::kNone || !peer.channel) {
      continue;
    }
    while (Pump(rank, peer)) {
      // What it said before; it says no more.
    }
    peer.conversation.End(end == LineEnd::kDied ? GoneStatus(rank, peer, {}) : HasClosed(rank));
  }
  SettleAny();
}

}  // namespace muster
