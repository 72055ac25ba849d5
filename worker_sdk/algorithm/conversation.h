// The messages between this rank and one other: pure. Frames go out and come in as bytes, which
// someone else moves, as many at a time as there is room for.
//
// A message of up to kWholeMax bytes goes as one frame; if nobody has asked for it yet, the other
// side keeps it. A sender knows how much of that may be kept at most: the other side tells it what
// has been asked for (kCredit). A message beyond that, or a larger one, is offered first, and sent
// into the receiver's own memory once it is accepted; or the receiver pulls it from where it lies
// in the sender's memory, if each of the two can read the other's (AllowPulls). Messages of one tag
// arrive in the order in which they were sent.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/status.h"
#include "muster/types.h"

namespace muster {

// What a program sends or receives. `data` is the program's until it has ended.
struct Transfer {
  uint32_t tag = 0;
  DType dtype = DType::kUInt8;
  uint64_t bytes = 0;
  uint8_t* data = nullptr;  // of a send: only read
  bool ended = false;
  Status status = {};
  bool any = false;      // a receive that several conversations have: the first message is for it
  int from = kAnyRank;   // of a receive: whose message it has got
  bool awaited = false;  // somebody waits until it has ended

  void End(const Status& why = {}) {
    ended = true;
    status = why;
  }
};
using TransferPtr = std::shared_ptr<Transfer>;

enum class FrameKind : uint8_t {
  kWhole = 0xd1,  // a message: its bytes follow
  kOffer,         // of a message: may it come?
  kAccept,        // of an offer
  kRefuse,        // of an offer: who asked for it wants another type or count, which are told
  kData,          // of a message that was accepted: its bytes follow
  kTaken,         // of an offer: the message has been pulled
  kCredit,        // so many bytes of messages that went whole need not be kept any more
  kBye,           // nothing more comes
  kGaveUp,        // likewise, as a message has failed or timed out
};

// Before every frame, little-endian as all machines that we run on.
struct FrameHead {
  FrameKind kind = FrameKind::kWhole;  // far from what other protocols begin with
  DType dtype = DType::kUInt8;
  uint16_t whole_bytes = 0;  // of a kWhole
  uint32_t tag = 0;
  // A kWhole has none of what follows: short messages shall be short.
  uint64_t number = 0;   // of the offer
  uint64_t bytes = 0;    // of the message; of a kCredit: with what each message counts more
  uint64_t address = 0;  // of a kOffer: where the message may be pulled from; 0: nowhere
};
static_assert(sizeof(FrameHead) == 32);
inline constexpr uint64_t kShortHead = 8;
constexpr uint64_t HeadBytes(FrameKind kind) {
  return kind == FrameKind::kWhole ? kShortHead : sizeof(FrameHead);
}

// The same on both sides.
struct ConversationLimits {
  // Bytes of messages one way that have gone whole and that nobody is known to have asked for,
  // wherever they are; each counts kMessageCost more.
  uint64_t kept = 16u << 20;
  // Offers one way that nobody has asked for: the other side remembers each.
  uint64_t offers = 128u << 10;
};

class Conversation {
 public:
  static constexpr uint16_t kWholeMax = 32u << 10;
  static constexpr uint64_t kMessageCost = 128;
  // Messages with more bytes than the first and no more than the second are pulled. Two cores that
  // copy once each are quicker with less, and with more than caches hold; measured with
  // muster-perf.
  static constexpr uint64_t kPulledAbove = 64u << 10;
  static constexpr uint64_t kPulledMax = 16u << 20;
  static constexpr uint64_t kPullMax = 1u << 20;  // at once: a tenth of a millisecond or two

  // `name`: of the other rank, for sentences; `peer`: its number, for Status::peer().
  explicit Conversation(std::string name, const ConversationLimits& limits = {}, int peer = -1)
      : name_(std::move(name)), peer_(peer), limits_(limits) {}

  // What is offered from now on may be pulled, by either side.
  void AllowPulls() { pulls_allowed_ = true; }
  // ResourceExhausted: too many offers wait for their receivers.
  void Send(TransferPtr transfer);
  // Of one that several conversations have, the end of this one is no end.
  void Receive(TransferPtr transfer);
  // Nothing has come for it here, and nothing shall any more.
  void Withdraw(const TransferPtr& transfer);
  // If what is sent goes whole and has not left yet, copies it: it has ended then.
  void Keep(const TransferPtr& transfer);

  struct Piece {
    const uint8_t* data = nullptr;
    uint64_t bytes = 0;
  };
  // What goes to the other rank next, one behind the other; no bytes: nothing.
  std::array<Piece, 2> NextOut() const;
  void Wrote(uint64_t bytes);
  struct Room {
    uint8_t* data = nullptr;
    uint64_t bytes = 0;
  };
  // Where to put what the other rank says next; no bytes: nobody waits for it.
  Room NextIn();
  void Took(uint64_t bytes);

  struct Pull {
    uint64_t address = 0;  // in the other rank's memory
    uint8_t* data = nullptr;
    uint64_t bytes = 0;
  };
  // What to read next, at most kPullMax at once; no bytes: nothing.
  Pull NextPull() const;
  void Pulled(uint64_t bytes);
  // It cannot be read: it shall be sent instead.
  void PullFailed();

  // This one waits no more, and its memory is not touched again.
  void Abandon(const TransferPtr& transfer, const Status& why);
  // Everything that has not ended ends with `why`, and so does what comes later.
  void End(const Status& why);
  // The other rank hears nothing any more: what it has said is taken now, not when somebody waits.
  void HearAll() { hears_all_ = true; }
  // All that a program waits for ends with `why`. What is kept of its messages goes on, and a
  // goodbye after them; what comes is for nobody.
  void Close(const Status& why);

  // Once it has ended: what tells the other rank that it has; no bytes: half a message stands
  // before that.
  std::array<Piece, 2> LastWord() const;
  // As the other side sees it then.
  Status GaveUp() const {
    return {StatusCode::kUnavailable,
            name_ +
                " exchanges no messages with this rank any more: one timed out, or failed, "
                "there",
            peer_};
  }

  // Tags of messages that have come and that nobody has asked for, ascending; `most` of them.
  std::vector<uint32_t> Unasked(size_t most) const {
    std::vector<uint32_t> out;
    for (auto at = arrived_.begin(); at != arrived_.end() && out.size() < most;
         at = arrived_.upper_bound(at->first)) {
      out.push_back(at->first);
    }
    return out;
  }
  bool hears() const;  // NextIn() has room
  // A message that would go whole waits to be asked for, as those before it do.
  bool is_held_back(const TransferPtr& transfer) const;
  // Something is to be sent, or is waited for.
  bool open() const;
  bool has_out() const { return !out_.empty(); }
  bool sends() const { return !out_.empty() || !offered_.empty(); }
  bool ended() const { return !end_.ok(); }
  const Status& end() const { return end_; }  // why it has ended

 private:
  struct Outgoing {
    FrameHead head;
    TransferPtr transfer;       // ends when this is through; null: nobody waits
    std::vector<uint8_t> kept;  // its bytes, if not the transfer's
    uint64_t done = 0;
    uint64_t bytes() const;  // behind the head
  };
  struct Pulling {
    FrameHead head;
    TransferPtr receiver;
    uint64_t done = 0;
  };
  // A message that nobody has asked for, or its offer.
  struct Arrived {
    FrameHead head;
    std::vector<uint8_t> bytes;
    TransferPtr receiver;  // who asked for it while it was arriving
  };

  void Say(FrameKind kind, const FrameHead& about, TransferPtr transfer = nullptr);
  uint64_t in_head_bytes() const;
  void TakeHead();
  void TakeMessage();
  void TakeOffer();
  void TakeAnswer();
  void TakeData();
  void FinishData();
  void Deliver(const Arrived& arrived, const TransferPtr& receiver);
  void Accept(const FrameHead& head, const TransferPtr& receiver);
  bool Fits(const FrameHead& head, const TransferPtr& receiver);
  TransferPtr Posted(uint32_t tag);
  void Claim(const TransferPtr& receiver) const;
  void Nonsense();
  void Forget(const Arrived& arrived);
  void Into(TransferPtr transfer, uint8_t* data, uint64_t bytes);
  void EndTransfers(const Status& why);
  void Asked(const FrameHead& head);
  bool listens() const;

  const std::string name_;
  const int peer_;
  const ConversationLimits limits_;
  std::deque<Outgoing> out_;
  std::deque<TransferPtr> posted_;            // receives that nothing has come for
  std::map<uint64_t, TransferPtr> offered_;   // sends that wait for an answer
  std::map<uint64_t, TransferPtr> accepted_;  // receives whose data is awaited, or comes
  std::deque<Pulling> pulls_;                 // the first one is under way
  std::multimap<uint32_t, Arrived> arrived_;  // by tag; those of one in the order of arrival
  std::optional<Arrived> arriving_;           // whole, and some of its bytes are still to come
  uint64_t whole_out_ = 0;  // as limits_.kept counts; the other side may still keep it
  uint64_t kept_in_ = 0;    // likewise, of those in arrived_
  uint64_t offers_in_ = 0;  // in arrived_
  uint64_t asked_in_ = 0;   // what the other side has not been told of yet
  uint64_t offers_ = 0;
  bool pulls_allowed_ = false;
  bool closed_ = false;
  bool hears_all_ = false;
  Status end_;
  bool cut_ = false;  // when it ended, half of a frame was sent

  FrameHead in_;  // that is coming
  uint64_t in_done_ = 0;
  TransferPtr in_transfer_;     // its data goes there, or to the last arrived, or nowhere
  uint8_t* in_data_ = nullptr;  // null: nowhere
  uint64_t in_bytes_ = 0;
  std::vector<uint8_t> waste_;
};

}  // namespace muster
