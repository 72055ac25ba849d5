// Messages between this rank and any other: through memory with those of its node, over TCP with
// the others. Any thread.
//
// What is under way goes on while somebody waits or looks here, or waits in a collective of the
// same rank (Progress). By itself moves only what a Send leaves to be sent (Mover).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/status.h"
#include "proto/base/unique_fd.h"
#include "worker_sdk/algorithm/conversation.h"
#include "worker_sdk/algorithm/layout.h"
#include "worker_sdk/transport/arena.h"
#include "worker_sdk/transport/byte_channel.h"
#include "worker_sdk/transport/direct_read.h"
#include "worker_sdk/transport/mover.h"

namespace muster {

// Where connections come from; called with a lock held, by one thread at a time.
class MessageSource {
 public:
  MessageSource() = default;
  virtual ~MessageSource() = default;
  MessageSource(const MessageSource&) = delete;
  MessageSource& operator=(const MessageSource&) = delete;

  // A connection with this rank, please: both sides ask. Does not wait.
  virtual Status Seek(uint32_t rank) = 0;
  // What has come of it: a socket, or the memory of a pipe with a rank of this node.
  virtual std::optional<StatusOr<UniqueFd>> Take(uint32_t rank) = 0;
  // A message has failed because of this rank.
  virtual void Blame(uint32_t rank) = 0;
};

class Messages {
 public:
  static constexpr std::chrono::seconds kCloseWithin{10};
  // Instead of a rank, of a receive: whoever sends first.
  static constexpr uint32_t kAny = static_cast<uint32_t>(kAnyRank);

  // All of them are there until Close().
  Messages(Arena* arena, const Layout* layout, MessageSource* source);
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // Large messages of this node's ranks are pulled from now on. Before the first one; of all ranks
  // of the node, or none. It has met them, and is there until Close().
  void SetDirect(const DirectReader* direct) { direct_ = direct; }

  // Begins; whether it has ended already is for Wait or Test to say. `rank` is one of the layout.
  TransferPtr Send(uint32_t rank, uint32_t tag, DType dtype, const void* data, uint64_t bytes);
  TransferPtr Receive(uint32_t rank, uint32_t tag, DType dtype, void* data, uint64_t bytes);
  // Begins and waits, as Wait does.
  Status SendNow(uint32_t rank, uint32_t tag, DType dtype, const void* data, uint64_t bytes,
                 std::chrono::nanoseconds timeout);
  Status ReceiveNow(uint32_t rank, uint32_t tag, DType dtype, void* data, uint64_t bytes,
                    std::chrono::nanoseconds timeout);

  // Until it has ended, for at most `timeout` (zero: as long as it takes); with a line a minute.
  // Errors: FailedPrecondition (the two sides disagree on type or count, or the other has closed
  // its communicator), Unavailable (it died), DeadlineExceeded. Of any rank: one died; or no other
  // can send any more, and this rank has sent itself nothing: whoever waits could wait for ever,
  // while what is only tested goes on until this rank sends to itself.
  Status Wait(uint32_t rank, const TransferPtr& transfer, std::chrono::nanoseconds timeout);
  // Whether it has ended. Whoever asks until it has finds out that a peer died, as Wait does.
  bool Test(const TransferPtr& transfer);
  // Whose message a receive has got; kAnyRank: none yet.
  int SourceOf(const TransferPtr& transfer);

  // Moves what can be moved now; whether something is under way.
  bool Progress();
  // Of all communicators of this process: while it waits in one, another one's messages go on.
  static bool ProgressAll();

  // Sends what is on its way, until nothing has moved for `within`; then everything ends. Nothing
  // is sent or received any more.
  void Close(std::chrono::nanoseconds within = kCloseWithin);
  // The same at once, for `why`, and nobody is told: the other ranks come to their end by
  // themselves. What they read from our memory meanwhile does not count.
  void Drop(const Status& why);
  // All that is under way ends for `why`, and so does what begins later; those who talk with us
  // hear that we do no more. Needs no memory where `why` needs none.
  void Fail(const Status& why);

 private:
  struct Peer {
    Peer(std::string name, uint32_t rank)
        : conversation(std::move(name), {}, static_cast<int>(rank)) {}
    Conversation conversation;
    std::unique_ptr<ByteChannel> channel;  // null: not connected yet
    std::optional<uint32_t> place;         // of a rank of our node
    bool sought = false;
    bool active = false;  // in active_
    bool owed = false;    // we gave up before there was a channel: the other side hears it late
  };

  Peer& PeerOf(uint32_t rank);
  Status GoneStatus(uint32_t rank, const Peer& peer, const ByteChannel::Moved& last) const;
  // The other side shall know that nothing is said here any more.
  static void Abort(Peer& peer);
  void TellOfEnd(uint32_t rank, Peer& peer);
  // The same of who has given up before there was a channel, once there is one.
  void AbortOwed();
  struct All;  // of this process
  static All& TheAll();
  // Moves what can be moved now, if nobody else does.
  Mover::Pushed PushOut();
  void Leave();
  enum class Way { kSend, kReceive };
  TransferPtr Begin(uint32_t rank, Way way, Transfer what);
  // Null: of any rank.
  Peer* BeginLocked(uint32_t rank, Way way, const TransferPtr& transfer);
  void ReceiveOfAny(const TransferPtr& transfer);
  void Withdraw(const TransferPtr& transfer);
  void SettleAny();
  void EndAny(const Status& why);
  Status ADeath() const;
  Status NoOtherSends() const;
  bool HasDied(const Peer& peer) const;
  static const Status& ClosedStatus();
  Status DoNow(uint32_t rank, Way way, Transfer what, std::chrono::nanoseconds timeout);
  bool NeedsOurCore(const Peer* peer) const;
  // What it locks is let go of between looks.
  void Spin(uint32_t rank, Peer* peer, const TransferPtr& transfer,
            std::unique_lock<std::mutex>& lock);
  Status WaitLocked(uint32_t rank, Peer* peer, const TransferPtr& transfer,
                    std::chrono::nanoseconds timeout, std::unique_lock<std::mutex> lock);
  void Activate(uint32_t rank, Peer& peer);
  // Whether anything has moved.
  bool ProgressLocked();
  bool Pump(uint32_t rank, Peer& peer);
  bool Move(uint32_t rank, Peer& peer);
  bool Connect(uint32_t rank, Peer& peer);
  // nullopt: there is no channel yet; not OK: there will be none.
  std::optional<Status> TakeChannel(uint32_t rank, Peer& peer);
  Status HasClosed(uint32_t rank) const;
  void EndUnconnected(uint32_t rank, Peer& peer, const Status& why);
  static bool MoveOut(Peer& peer, ByteChannel::Moved& last);
  static bool MoveIn(Peer& peer, ByteChannel::Moved& last);
  bool MovePull(Peer& peer);
  // A rank of our node that is gone says nothing on a pipe.
  void LookAround();
  bool IsTimeToLook();
  // `moved`: whether anything has.
  bool Ended(const TransferPtr& transfer, bool* moved);
  void WaitLong(uint32_t rank, const TransferPtr& transfer, std::chrono::nanoseconds timeout);
  void Sleep(uint32_t rank, const TransferPtr& transfer, std::chrono::nanoseconds most);
  Status TooLate(uint32_t rank, const TransferPtr& transfer, std::chrono::nanoseconds timeout);
  std::string Unasked(uint32_t rank) const;
  std::string Hint(uint32_t rank, const TransferPtr& transfer);
  bool Flush(uint64_t* unsent, bool* done);
  // Until nobody waits here any more.
  void AwaitLeaving(std::unique_lock<std::mutex>& lock);
  void GiveUpOn(uint32_t rank, const TransferPtr& transfer, const Status& why);

  Arena* const arena_;
  const Layout* const layout_;
  MessageSource* const source_;
  const uint32_t rank_;
  const uint32_t node_;
  const DirectReader* direct_ = nullptr;  // SetDirect()

  std::mutex mutex_;
  std::map<uint32_t, Peer> peers_;                // by rank
  std::vector<TransferPtr> any_;                  // receives of any rank, which all of peers_ have
  uint32_t first_ = 0;                            // whose messages they look at first
  std::vector<uint32_t> active_;                  // ranks whose conversation is open
  std::vector<uint32_t> owing_;                   // ranks with `owed`, and no channel so far
  std::atomic<bool> idle_{true};                  // both are empty
  std::atomic<uint32_t> waiting_ = 0;             // threads in Wait
  std::chrono::steady_clock::time_point looked_;  // when a Test did, last
  bool closed_ = false;
  Status dropped_;  // why nothing begins any more, after Drop() or Fail()
};

}  // namespace muster
