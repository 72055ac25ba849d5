#include "worker_sdk/algorithm/conversation.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster {
namespace {

constexpr uint64_t kWasteBytes = 4096;

void EndTransfer(const TransferPtr& transfer, const Status& status = {}) {
  if (transfer) {
    transfer->End(status);
  }
}

uint64_t CostOf(const FrameHead& head) { return Conversation::kMessageCost + head.bytes; }

std::string Describe(uint64_t bytes, DType dtype) {
  return std::to_string(bytes / SizeOf(dtype)) + " x " + Name(dtype);
}

Status Mismatch(uint32_t tag, const std::string& sender, const std::string& sent,
                const std::string& receiver, const std::string& wanted) {
  return {StatusCode::kFailedPrecondition, "message with tag " + std::to_string(tag) + ": " +
                                               sender + " sends " + sent + ", " + receiver +
                                               " wants " + wanted};
}

}  // namespace

uint64_t Conversation::Outgoing::bytes() const {
  return head.kind == FrameKind::kWhole || head.kind == FrameKind::kData ? head.bytes : 0;
}

void Conversation::Say(FrameKind kind, const FrameHead& about, TransferPtr transfer) {
  Outgoing out;
  out.head = about;
  out.head.kind = kind;
  out.transfer = std::move(transfer);
  const bool is_answer = kind != FrameKind::kWhole && kind != FrameKind::kOffer &&
                         kind != FrameKind::kData && kind != FrameKind::kBye;
  if (!is_answer) {
    return out_.push_back(std::move(out));
  }
  // Who waits for it may read nothing else until then: it goes before all that has not begun.
  const bool begun = !out_.empty() && out_.front().done > 0;
  out_.insert(out_.begin() + (begun ? 1 : 0), std::move(out));
}

void Conversation::Send(TransferPtr transfer) {
  if (ended()) {
    return EndTransfer(transfer, end_);
  }
  FrameHead head;
  head.tag = transfer->tag;
  head.dtype = transfer->dtype;
  head.bytes = transfer->bytes;
  if (head.bytes <= kWholeMax && whole_out_ + CostOf(head) <= limits_.kept) {
    head.whole_bytes = static_cast<uint16_t>(head.bytes);
    whole_out_ += CostOf(head);
    return Say(FrameKind::kWhole, head, std::move(transfer));
  }
  if (offered_.size() >= limits_.offers) {
    return EndTransfer(transfer, {StatusCode::kResourceExhausted,
                                  std::to_string(limits_.offers) + " messages to " + name_ +
                                      " wait to be received, and no more may: wait for some of "
                                      "them before the next is sent"});
  }
  head.number = ++offers_;
  const bool may_be_pulled =
      pulls_allowed_ && head.bytes > kPulledAbove && head.bytes <= kPulledMax;
  head.address = may_be_pulled ? reinterpret_cast<uint64_t>(transfer->data) : 0;
  offered_[head.number] = std::move(transfer);
  Say(FrameKind::kOffer, head);
}

void Conversation::Receive(TransferPtr transfer) {
  const auto at = arrived_.lower_bound(transfer->tag);
  if (at != arrived_.end() && at->first == transfer->tag) {
    const Arrived arrived = std::move(at->second);
    arrived_.erase(at);
    Forget(arrived);
    Claim(transfer);
    return Deliver(arrived, transfer);
  }
  if (arriving_ && arriving_->head.tag == transfer->tag && !arriving_->receiver) {
    Claim(transfer);
    arriving_->receiver = std::move(transfer);
    return;
  }
  if (!ended()) {
    posted_.push_back(std::move(transfer));
  } else if (!transfer->any) {
    EndTransfer(transfer, end_);
  }
}

void Conversation::Withdraw(const TransferPtr& transfer) {
  // Mostly one of the first.
  if (const auto at = std::find(posted_.begin(), posted_.end(), transfer); at != posted_.end()) {
    posted_.erase(at);
  }
}

// Its message is the other rank's.
void Conversation::Claim(const TransferPtr& receiver) const { receiver->from = peer_; }

// Somebody has asked for it.
void Conversation::Forget(const Arrived& arrived) {
  if (arrived.head.kind == FrameKind::kOffer) {
    --offers_in_;
  } else {
    kept_in_ -= CostOf(arrived.head);
    Asked(arrived.head);
  }
}

void Conversation::Asked(const FrameHead& head) {
  asked_in_ += CostOf(head);
  if (!ended() && !closed_ && asked_in_ >= limits_.kept / 4) {
    FrameHead credit;
    credit.bytes = std::exchange(asked_in_, 0);
    Say(FrameKind::kCredit, credit);
  }
}

void Conversation::Deliver(const Arrived& arrived, const TransferPtr& receiver) {
  const FrameHead& head = arrived.head;
  const bool fits = Fits(head, receiver);
  if (head.kind == FrameKind::kOffer) {
    if (ended()) {
      return EndTransfer(receiver, end_);
    }
    if (!fits) {
      FrameHead answer = head;
      answer.dtype = receiver->dtype;
      answer.bytes = receiver->bytes;
      return Say(FrameKind::kRefuse, answer);
    }
    if (pulls_allowed_ && head.address != 0) {
      return pulls_.push_back({head, receiver});
    }
    Accept(head, receiver);
  } else if (fits) {
    std::copy(arrived.bytes.begin(), arrived.bytes.end(), receiver->data);
    EndTransfer(receiver);
  }
}

void Conversation::Accept(const FrameHead& head, const TransferPtr& receiver) {
  accepted_[head.number] = receiver;
  Say(FrameKind::kAccept, head);
}

// Otherwise the receiver has ended.
bool Conversation::Fits(const FrameHead& head, const TransferPtr& receiver) {
  if (head.bytes == receiver->bytes && head.dtype == receiver->dtype) {
    return true;
  }
  EndTransfer(receiver, Mismatch(head.tag, name_, Describe(head.bytes, head.dtype), "this rank",
                                 Describe(receiver->bytes, receiver->dtype)));
  return false;
}

void Conversation::Keep(const TransferPtr& transfer) {
  // Near the back, where it went; what the other side has asked for since may have followed it.
  constexpr ptrdiff_t kFollowMax = 64;
  const auto end = out_.rbegin() + std::min(kFollowMax, static_cast<ptrdiff_t>(out_.size()));
  const auto out =
      std::find_if(out_.rbegin(), end, [&](const Outgoing& o) { return o.transfer == transfer; });
  if (out != end && out->head.kind == FrameKind::kWhole) {
    out->kept.assign(transfer->data, transfer->data + out->head.bytes);
    out->transfer = nullptr;
    EndTransfer(transfer);
  }
}

std::array<Conversation::Piece, 2> Conversation::NextOut() const {
  if (out_.empty()) {
    return {};
  }
  const Outgoing& out = out_.front();
  const uint64_t head_bytes = HeadBytes(out.head.kind);
  const uint64_t of_head = std::min(out.done, head_bytes);
  const uint64_t at = out.done - of_head;
  const uint8_t* const data = out.transfer ? out.transfer->data : out.kept.data();
  return {{{reinterpret_cast<const uint8_t*>(&out.head) + of_head, head_bytes - of_head},
           {out.bytes() == 0 ? nullptr : data + at, out.bytes() - at}}};
}

std::array<Conversation::Piece, 2> Conversation::LastWord() const {
  static constexpr FrameHead kWord = {.kind = FrameKind::kGaveUp};
  if (cut_) {
    return {};
  }
  return {{{reinterpret_cast<const uint8_t*>(&kWord), sizeof(kWord)}, {}}};
}

void Conversation::Wrote(uint64_t bytes) {
  Outgoing& out = out_.front();
  out.done += bytes;
  if (out.done < HeadBytes(out.head.kind) + out.bytes()) {
    return;
  }
  EndTransfer(out.transfer);
  out_.pop_front();
}

Conversation::Room Conversation::NextIn() {
  if (!hears()) {
    return {};
  }
  const uint64_t head = in_head_bytes();
  if (in_done_ < head) {
    return {reinterpret_cast<uint8_t*>(&in_) + in_done_, head - in_done_};
  }
  const uint64_t at = in_done_ - head;
  if (in_data_ == nullptr) {
    waste_.resize(kWasteBytes);
    return {waste_.data(), std::min(kWasteBytes, in_bytes_ - at)};
  }
  return {in_data_ + at, in_bytes_ - at};
}

void Conversation::Took(uint64_t bytes) {
  in_done_ += bytes;
  const uint64_t head = in_head_bytes();
  if (in_done_ < head) {
    return;
  }
  if (in_done_ == head) {
    Into(nullptr, nullptr, 0);
    TakeHead();
  }
  if (!ended() && in_done_ == head + in_bytes_) {
    FinishData();
    in_done_ = 0;
  }
}

// What begins with other bytes than ours is found out by then.
uint64_t Conversation::in_head_bytes() const {
  return in_done_ < kShortHead ? kShortHead : HeadBytes(in_.kind);
}

void Conversation::Into(TransferPtr transfer, uint8_t* data, uint64_t bytes) {
  in_transfer_ = std::move(transfer);
  in_data_ = data;
  in_bytes_ = bytes;
}

void Conversation::TakeHead() {
  if (static_cast<int>(in_.dtype) >= kDTypes) {
    return Nonsense();
  }
  switch (in_.kind) {
    case FrameKind::kWhole:
      return TakeMessage();
    case FrameKind::kOffer:
      return TakeOffer();
    case FrameKind::kAccept:
    case FrameKind::kRefuse:
    case FrameKind::kTaken:
      return TakeAnswer();
    case FrameKind::kCredit:
      if (in_.bytes > whole_out_) {
        return Nonsense();
      }
      whole_out_ -= in_.bytes;
      return;
    case FrameKind::kData:
      return TakeData();
    case FrameKind::kBye:
      return End({StatusCode::kFailedPrecondition, name_ + " has closed its communicator", peer_});
    case FrameKind::kGaveUp:
      return End(GaveUp());
  }
  Nonsense();
}

void Conversation::Nonsense() {
  End({StatusCode::kInternal, name_ + " speaks another protocol: use one libmuster"});
}

// The first receive with this tag, if there is one. One of any rank may have got another's message.
TransferPtr Conversation::Posted(uint32_t tag) {
  const auto at = std::find_if(posted_.begin(), posted_.end(), [&](const TransferPtr& posted) {
    return posted->tag == tag && (!posted->any || posted->from == kAnyRank);
  });
  if (at == posted_.end()) {
    return nullptr;
  }
  TransferPtr out = std::move(*at);
  posted_.erase(at);
  Claim(out);
  return out;
}

void Conversation::TakeMessage() {
  if (in_.whole_bytes > kWholeMax) {
    return Nonsense();
  }
  in_.bytes = in_.whole_bytes;
  if (TransferPtr receiver = Posted(in_.tag)) {
    Asked(in_);
    const bool fits = Fits(in_, receiver);
    uint8_t* const data = fits ? receiver->data : nullptr;
    return Into(fits ? std::move(receiver) : nullptr, data, in_.bytes);
  }
  if (kept_in_ + CostOf(in_) > limits_.kept) {
    return Nonsense();
  }
  kept_in_ += CostOf(in_);
  arriving_.emplace();
  arriving_->head = in_;
  arriving_->bytes.resize(in_.bytes);
  Into(nullptr, arriving_->bytes.data(), in_.bytes);
}

void Conversation::TakeOffer() {
  Arrived offer;
  offer.head = in_;
  if (const TransferPtr receiver = Posted(in_.tag)) {
    return Deliver(offer, receiver);
  }
  if (++offers_in_ > limits_.offers) {
    return Nonsense();
  }
  arrived_.emplace(in_.tag, std::move(offer));
}

void Conversation::TakeAnswer() {
  const auto at = offered_.find(in_.number);
  if (at == offered_.end()) {
    return closed_ ? void() : Nonsense();
  }
  TransferPtr transfer = std::move(at->second);
  offered_.erase(at);
  if (in_.kind == FrameKind::kTaken) {
    return EndTransfer(transfer);
  }
  FrameHead head = in_;
  head.dtype = transfer->dtype;
  head.bytes = transfer->bytes;
  if (in_.kind == FrameKind::kAccept) {
    return Say(FrameKind::kData, head, std::move(transfer));
  }
  EndTransfer(transfer, Mismatch(in_.tag, "this rank", Describe(head.bytes, head.dtype), name_,
                                 Describe(in_.bytes, in_.dtype)));
}

void Conversation::TakeData() {
  if (closed_) {
    return Into(nullptr, nullptr, in_.bytes);
  }
  const auto at = accepted_.find(in_.number);
  if (at == accepted_.end() || at->second->bytes != in_.bytes) {
    return Nonsense();
  }
  Into(at->second, at->second->data, in_.bytes);
}

// The frame is here, with all that follows it.
void Conversation::FinishData() {
  if (in_.kind == FrameKind::kData) {
    accepted_.erase(in_.number);
  }
  if (in_transfer_) {
    EndTransfer(in_transfer_);
  } else if (arriving_ && arriving_->receiver) {
    Forget(*arriving_);
    Deliver(*arriving_, arriving_->receiver);
  } else if (arriving_) {
    arrived_.emplace(in_.tag, *std::move(arriving_));
  }
  arriving_.reset();
  Into(nullptr, nullptr, 0);
}

Conversation::Pull Conversation::NextPull() const {
  if (pulls_.empty()) {
    return {};
  }
  const Pulling& next = pulls_.front();
  return {next.head.address + next.done, next.receiver->data + next.done,
          std::min(kPullMax, next.head.bytes - next.done)};
}

void Conversation::Pulled(uint64_t bytes) {
  Pulling& now = pulls_.front();
  now.done += bytes;
  if (now.done == now.head.bytes) {
    EndTransfer(now.receiver);
    Say(FrameKind::kTaken, now.head);
    pulls_.pop_front();
  }
}

void Conversation::PullFailed() {
  const Pulling failed = std::move(pulls_.front());
  pulls_.pop_front();
  Accept(failed.head, failed.receiver);
}

void Conversation::Abandon(const TransferPtr& transfer, const Status& why) {
  const auto at = std::find(posted_.begin(), posted_.end(), transfer);
  if (at == posted_.end()) {
    return End(why);  // half of it may be there
  }
  posted_.erase(at);
  EndTransfer(transfer, why);
}

void Conversation::End(const Status& why) {
  if (ended()) {
    return;
  }
  end_ = why;
  EndTransfers(why);
  cut_ = !out_.empty() && out_.front().done > 0;
  out_.clear();
  // What has come whole can still be received.
  if (arriving_) {
    Forget(*arriving_);
    arriving_.reset();
  }
  Into(nullptr, nullptr, 0);
}

void Conversation::Close(const Status& why) {
  if (closed_) {
    return;
  }
  closed_ = true;
  EndTransfers(why);
  std::erase_if(out_, [](const Outgoing& out) { return out.transfer && out.done == 0; });
  if (!out_.empty() && out_.front().transfer) {
    return End(why);  // its memory is not ours any more
  }
  if (!ended()) {
    Say(FrameKind::kBye, {});
  }
}

// And none of their memory is touched any more.
void Conversation::EndTransfers(const Status& why) {
  for (Outgoing& out : out_) {
    EndTransfer(out.transfer, why);
  }
  for (const TransferPtr& posted : posted_) {
    if (!posted->any) {
      EndTransfer(posted, why);
    }
  }
  for (const auto* transfers : {&offered_, &accepted_}) {
    for (const auto& [number, transfer] : *transfers) {
      EndTransfer(transfer, why);
    }
  }
  for (const Pulling& pulling : pulls_) {
    EndTransfer(pulling.receiver, why);
  }
  if (arriving_) {
    EndTransfer(std::exchange(arriving_->receiver, nullptr), why);
  }
  if (in_transfer_) {
    EndTransfer(in_transfer_, why);
    Into(nullptr, nullptr, in_bytes_);
  }
  posted_.clear();
  offered_.clear();
  accepted_.clear();
  pulls_.clear();
}

bool Conversation::listens() const {
  return !posted_.empty() || !offered_.empty() || !accepted_.empty() || !pulls_.empty() ||
         closed_ || hears_all_;
}

// Who may soon send nothing whole any more looks whether it has been told of more.
bool Conversation::hears() const {
  return !ended() && (in_done_ > 0 || listens() || whole_out_ > limits_.kept / 2);
}

bool Conversation::is_held_back(const TransferPtr& transfer) const {
  return transfer->bytes <= kWholeMax &&
         std::any_of(offered_.begin(), offered_.end(),
                     [&](const auto& offered) { return offered.second == transfer; });
}

bool Conversation::open() const { return !ended() && (!out_.empty() || in_done_ > 0 || listens()); }

}  // namespace muster
