// Waiting for messages, and the end of all of them.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker_sdk/base/at_end.h"
#include "worker_sdk/base/no_memory.h"
#include "worker_sdk/base/timeout_text.h"
#include "worker_sdk/transport/messages.h"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

// Asleep for no longer than this: what nobody wakes us for is seen then.
constexpr std::chrono::milliseconds kNap{10};
// Then a dead peer is looked for.
constexpr std::chrono::milliseconds kLookEvery{50};
// At what a peer says, before the lock is let go of.
constexpr int kLooksAtOnce = 4;
// Where what moves next may be of several kinds, and we sleep for one of them.
constexpr std::chrono::milliseconds kShortNap{1};
constexpr std::chrono::milliseconds kGoodbyeWithin{100};

constexpr size_t kTagsNamed = 3;
constexpr char kHeldBackHint[] = "; it has not received 16 MiB that were sent to it before";

}  // namespace

const Status& Messages::ClosedStatus() {
  // Never destroyed: a communicator may be closed after the end of main().
  static const Status& closed =
      *new Status(StatusCode::kFailedPrecondition, "the communicator is closed");
  return closed;
}

bool Messages::Test(const TransferPtr& transfer) {
  bool moved = false;
  if (Ended(transfer, &moved)) {
    return true;
  }
  if (moved || !IsTimeToLook()) {
    return false;
  }
  LookAround();
  return Ended(transfer, &moved);
}

// Of whoever asks again and again.
bool Messages::IsTimeToLook() {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const bool is_time = now - looked_ >= kLookEvery;
  looked_ = is_time ? now : looked_;
  return is_time;
}

bool Messages::Ended(const TransferPtr& transfer, bool* moved) {
  const std::lock_guard lock(mutex_);
  *moved = !transfer->ended && !closed_ && ProgressLocked();
  return transfer->ended;
}

Status Messages::Wait(uint32_t rank, const TransferPtr& transfer,
                      std::chrono::nanoseconds timeout) {
  bool ended = false;
  const AtEnd give_up([&] {
    if (!ended) {  // an exception ends us
      GiveUpOn(rank, transfer, NoMemory());
    }
  });
  std::unique_lock lock(mutex_);
  Status status =
      WaitLocked(rank, rank == kAny ? nullptr : &PeerOf(rank), transfer, timeout, std::move(lock));
  ended = true;
  return status;
}

Status Messages::WaitLocked(uint32_t rank, Peer* peer, const TransferPtr& transfer,
                            std::chrono::nanoseconds timeout, std::unique_lock<std::mutex> lock) {
  if (!transfer->ended) {
    ++waiting_;
    transfer->awaited = true;
    const AtEnd leave([this] { --waiting_; });
    Spin(rank, peer, transfer, lock);
    if (!transfer->ended) {
      lock.unlock();
      WaitLong(rank, transfer, timeout);
      lock.lock();
    }
  }
  if (const int to_blame = transfer->status.peer(); to_blame >= 0 && !closed_) {
    source_->Blame(static_cast<uint32_t>(to_blame));
  }
  return transfer->status;
}

// Whom we wait for, or one of them.
bool Messages::NeedsOurCore(const Peer* peer) const {
  const auto needs = [this](const Peer& one) {
    return one.place.has_value() && arena_->SharesCore(*one.place);
  };
  return peer != nullptr ? needs(*peer)
                         : std::any_of(peers_.begin(), peers_.end(),
                                       [&](const auto& one) { return needs(one.second); });
}

void Messages::Spin(uint32_t rank, Peer* peer, const TransferPtr& transfer,
                    std::unique_lock<std::mutex>& lock) {
  if (NeedsOurCore(peer)) {
    return;
  }
  for (uint32_t i = 0; i < arena_->policy().spins && !transfer->ended && !closed_; ++i) {
    for (int look = 0; peer != nullptr && look < kLooksAtOnce && !transfer->ended; ++look) {
      Pump(rank, *peer);
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
    } else if (!policy.IsLong(now - last_moved)) {
      sched_yield();
    } else {
      Sleep(rank, transfer, timeout.count() == 0 ? kNap : timeout - (now - begin));
      now = Clock::now();
    }
    const bool is_late = timeout.count() != 0 && now - begin >= timeout;
    if (!is_late && now - looked < kLookEvery) {
      continue;
    }
    looked = now;
    LookAround();
    const auto waited = now - begin;
    if (is_late) {
      GiveUpOn(rank, transfer, TooLate(rank, transfer, timeout));
    } else if (const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(waited);
               minutes > told) {
      told = minutes;
      std::fprintf(stderr, "muster: %s has waited for %s for %ld min: a message with tag %u%s\n",
                   layout_->NameOf(rank_).c_str(),
                   rank == kAny ? "any rank" : layout_->NameOf(rank).c_str(),
                   static_cast<long>(minutes.count()), transfer->tag, Hint(rank, transfer).c_str());
    }
  }
}

Status Messages::TooLate(uint32_t rank, const TransferPtr& transfer,
                         std::chrono::nanoseconds timeout) {
  const std::string within = Within(timeout);
  const std::string message = "a message with tag " + std::to_string(transfer->tag);
  const std::lock_guard lock(mutex_);
  const uint32_t from = rank == kAny ? static_cast<uint32_t>(transfer->from) : rank;
  if (from != kAny) {
    return {StatusCode::kDeadlineExceeded, layout_->NameOf(from) + " did not come " + within +
                                               " for " + message + kWhoseTimeout + Unasked(from)};
  }
  const auto lost = std::find_if(peers_.begin(), peers_.end(), [](const auto& peer) {
    return peer.second.conversation.end().code() == StatusCode::kUnavailable;
  });
  return {StatusCode::kDeadlineExceeded,
          "no rank has sent " + message + " " + within + kWhoseTimeout + Unasked(kAny) +
              (lost == peers_.end() ? "" : "; " + lost->second.conversation.end().message())};
}

// "; rank 0 has sent what nobody here has received, with tag 7": who waits may mean that one. Of
// `rank`, or of the first with such messages.
std::string Messages::Unasked(uint32_t rank) const {
  for (const auto& [from, peer] : peers_) {
    const std::vector<uint32_t> tags = peer.conversation.Unasked(kTagsNamed + 1);
    if (tags.empty() || (rank != kAny && from != rank)) {
      continue;
    }
    std::string text = "; " + layout_->NameOf(from) +
                       " has sent what nobody here has received, with tag" +
                       (tags.size() > 1 ? "s" : "");
    for (size_t i = 0; i < tags.size(); ++i) {
      text += i == kTagsNamed ? ", ..." : (i == 0 ? " " : ", ") + std::to_string(tags[i]);
    }
    return text;
  }
  return "";
}

// Why it may wait in vain.
std::string Messages::Hint(uint32_t rank, const TransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  return rank != kAny && peers_.at(rank).conversation.is_held_back(transfer) ? kHeldBackHint
                                                                             : Unasked(rank);
}

int Messages::SourceOf(const TransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  return transfer->from;
}

void Messages::GiveUpOn(uint32_t rank, const TransferPtr& transfer, const Status& why) {
  const std::lock_guard lock(mutex_);
  if (transfer->any && transfer->from == kAnyRank && !transfer->ended) {
    std::erase(any_, transfer);
    Withdraw(transfer);
    return transfer->End(why);
  }
  const auto at = peers_.find(transfer->any ? static_cast<uint32_t>(transfer->from) : rank);
  if (at != peers_.end() && !transfer->ended) {
    Peer& peer = at->second;
    peer.conversation.Abandon(transfer, why);
    if (peer.conversation.ended()) {
      TellOfEnd(at->first, peer);
    }
  }
}

// Until something can move, for a moment at most, and for no longer than `most`.
void Messages::Sleep(uint32_t rank, const TransferPtr& transfer, std::chrono::nanoseconds most) {
  std::vector<pollfd> sockets;
  bool pipes = false;
  bool missing = false;  // connections
  const bool held = arena_->hold().is_on();
  bool for_pipe = false;
  (void)ProgressAll();
  {
    const std::lock_guard lock(mutex_);
    for (const uint32_t active : active_) {
      const Peer& peer = peers_.at(active);
      const bool is_socket = peer.channel && peer.channel->fd() >= 0;
      // Nobody rings where another thread of ours sends to this rank itself.
      const bool is_pipe = peer.channel && !is_socket && active != rank_;
      pipes |= is_pipe;
      missing |= !peer.channel;
      if (is_socket && !held) {
        const auto events = static_cast<int16_t>((peer.conversation.hears() ? POLLIN : 0) |
                                                 (peer.conversation.has_out() ? POLLOUT : 0));
        sockets.push_back({events != 0 ? peer.channel->fd() : -1, events, 0});
      }
      for_pipe |= is_pipe && (active == rank || rank == kAny);
    }
  }
  const bool mixed = missing || held || (pipes && !sockets.empty());
  const std::chrono::nanoseconds nap = std::clamp<std::chrono::nanoseconds>(
      most, std::chrono::nanoseconds::zero(), mixed ? kShortNap : kNap);
  if (!for_pipe) {
    const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(nap);
    (void)poll(sockets.data(), sockets.size(), static_cast<int>(rounded.count()));
    return;
  }
  arena_->SleepUntilRing(nap, [&] {
    const std::lock_guard lock(mutex_);
    return ProgressLocked() || transfer->ended;
  });
}

// Whether anything has moved; `unsent`: bytes that other machines do not have yet, at the last call
// and now; `done`: nothing is left to be sent.
bool Messages::Flush(uint64_t* unsent, bool* done) {
  const std::lock_guard lock(mutex_);
  const bool moved = ProgressLocked();
  uint64_t left = 0;
  bool sends = false;
  for (const auto& [rank, peer] : peers_) {
    if (!peer.conversation.ended()) {
      sends |= peer.conversation.sends();
      left += peer.channel ? peer.channel->unsent() : 0;
    }
  }
  *done = !sends && left == 0;
  return std::exchange(*unsent, left) > left || moved;
}

void Messages::Drop(const Status& why) {
  Leave();
  std::unique_lock lock(mutex_);
  closed_ = true;
  dropped_ = why;
  for (auto& [rank, peer] : peers_) {
    if (peer.channel) {
      peer.channel->Withdraw();
    }
    peer.conversation.End(why);
  }
  EndAny(why);
  active_.clear();
  owing_.clear();
  idle_.store(true, std::memory_order_relaxed);
  AwaitLeaving(lock);
}

void Messages::Fail(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (closed_) {
    return;
  }
  dropped_ = why;
  for (auto& [rank, peer] : peers_) {
    if (!peer.conversation.ended()) {
      peer.conversation.End(why);
      TellOfEnd(rank, peer);
    }
  }
  EndAny(why);
}

void Messages::AwaitLeaving(std::unique_lock<std::mutex>& lock) {
  while (waiting_ > 0) {  // for a nap at most
    lock.unlock();
    std::this_thread::sleep_for(kShortNap);
    lock.lock();
  }
}

void Messages::Close(std::chrono::nanoseconds within) {
  Leave();
  // For as long as something moves now and then.
  const auto flush = [this](std::chrono::nanoseconds limit) {
    auto moved = Clock::now();
    uint64_t unsent = 0;
    for (bool done = false; !done;) {
      const bool moves = Flush(&unsent, &done);
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
      const bool on_its_way = peer.channel != nullptr && peer.channel->unsent() > 0;
      if (!flushed && (peer.conversation.sends() || on_its_way) && !peer.conversation.ended()) {
        std::fprintf(
            stderr,
            "muster: %s closes its communicator, and %s has not received all that was sent "
            "to it\n",
            layout_->NameOf(rank_).c_str(), layout_->NameOf(rank).c_str());
      }
      peer.conversation.Close(ClosedStatus());
      if (peer.channel) {
        peer.channel->Withdraw();
      } else {
        peer.conversation.End(ClosedStatus());
      }
      Activate(rank, peer);
    }
    EndAny(ClosedStatus());
  }
  (void)flush(kGoodbyeWithin);
  std::unique_lock lock(mutex_);
  closed_ = true;
  for (auto& [rank, peer] : peers_) {
    peer.conversation.End(ClosedStatus());
    peer.channel.reset();
  }
  EndAny(ClosedStatus());
  active_.clear();
  owing_.clear();
  idle_.store(true, std::memory_order_relaxed);
  AwaitLeaving(lock);
}

}  // namespace muster
