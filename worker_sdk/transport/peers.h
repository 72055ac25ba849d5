// Messages between this rank and those at its place on other nodes, over TCP connections that the
// agents brokered. One thread of the rank; nothing here waits but Receive, Flush and Fail.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "muster/status.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "worker_sdk/base/tally.h"
#include "worker_sdk/transport/arena.h"
#include "worker_sdk/transport/held_socket.h"
#include "worker_sdk/transport/rank_name.h"

namespace muster {

enum class MessageKind : uint32_t {
  kData = 1,
  kFailure = 2,
  kBye = 3,
  kWaiting = 4,  // "for you, in this call": ranks that both wait may find out that they disagree
};

// Before every message, little-endian as all machines that we run on.
struct MessageHead {
  static constexpr uint32_t kMagic = 0x3143534d;  // "MSC1"
  uint32_t magic = kMagic;
  MessageKind kind = MessageKind::kData;
  uint64_t call = 0;   // number of it; kFailure: a StatusCode
  uint64_t bytes = 0;  // that follow; kFailure: a sentence
  CallMark mark;       // kFailure: `root` is the rank that is to blame, counted from 1; 0: none
};
static_assert(sizeof(MessageHead) == 40);

class Peers {
 public:
  using GiveUp = std::function<Status(uint32_t rank)>;
  // Why it is an error that `rank` says this while we are where Begin put us.
  using Disagree = std::function<Status(uint32_t rank, const MessageHead& theirs)>;

  Peers(uint32_t nodes, WaitPolicy policy, Disagree disagree, RankName name = PlainRankName,
        LinkHold hold = {});
  ~Peers();  // says goodbye
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Done between looks while we wait; false: nothing is left to do, look rarely.
  void SetWork(std::function<bool()> work) { work_ = std::move(work); }

  // How long we may sleep before `give_up` is asked: longer than 50 ms is never slept.
  void SetNap(std::function<std::chrono::nanoseconds(uint32_t rank)> nap) { nap_ = std::move(nap); }

  // Whether its rank is known to have come to this call.
  bool IsInCall(uint32_t node) const { return peers_[node].heard >= head_.call; }
  bool Has(uint32_t node) const { return peers_[node].socket.valid(); }
  // The connection with `rank` of `node`; it becomes ours.
  void Add(uint32_t node, uint32_t rank, UniqueFd fd);

  // The next call. What was sent in the last one is through.
  void Begin(uint64_t call, const CallMark& mark);
  // Begins to send; `data` must stay as it is until Flush. Never waits.
  Status Send(uint32_t node, const uint8_t* data, uint64_t bytes);
  // Waits for the next message of `node`, which has `bytes` if both are in the same call. What is
  // being sent goes on meanwhile. `give_up` is asked every 50 ms or so; with any other answer than
  // OK the wait ends with it. Unavailable: that rank's process has ended.
  Status Receive(uint32_t node, uint8_t* data, uint64_t bytes, const GiveUp& give_up);
  // Waits until the first `sends` of this call are with the kernel: their memory is free again.
  Status Flush(uint64_t sends, const GiveUp& give_up);
  // Sends what can be sent now. False: nothing is left, or a peer has ended (its next use says so).
  bool Progress();
  // The same until the kernel takes no more.
  bool ProgressFar();

  // For that node: for its messages, and for ours to be taken; data that moved meanwhile included.
  // A wait that goes on counts as far as it has come, give or take 50 ms. Any thread.
  std::chrono::nanoseconds waited(uint32_t node) const { return peers_[node].waited.Get(); }

  // What a peer has said that ends our call, if no data stands before it; OK: none has.
  Status Failure();
  // Tells every peer why we stop, as far as they take it within a moment.
  void Fail(const Status& why);

 private:
  struct Outgoing {
    MessageHead head;
    const uint8_t* data = nullptr;
    uint64_t done = 0;    // of head and data
    uint64_t number = 0;  // of the send within the call
  };
  struct Peer {
    HeldSocket socket;
    uint32_t rank = 0;
    std::deque<Outgoing> out;
    MessageHead head;            // of the message that is coming
    uint64_t done = 0;           // of it, head and data
    Status end;                  // why nothing more comes from it, nor goes to it
    bool has_last_word = false;  // it has been sent why we fail
    uint64_t heard = 0;          // number of its last call that it has said something in
    bool told = false;           // in this call, that we wait for it
    Tally<std::chrono::nanoseconds> waited;
  };

  static constexpr std::chrono::milliseconds kLastWordWithin{100};
  static constexpr int kShortNapMs = 1;  // with work to do in between
  static constexpr uint64_t kFailureBytesMax = 1024;

  bool IsThrough(uint64_t sends) const;
  bool SendPiece(Peer& peer);
  void Take(Peer& peer, uint8_t* data, uint64_t bytes);
  bool Read(Peer& peer, void* to, uint64_t bytes);
  bool Hear(Peer& peer);
  bool IsData(Peer& peer);
  std::string ReadSentence(Peer& peer) const;
  void Skip(Peer& peer);
  void HearLast(Peer& peer, int error);
  void AwaitSent();
  Status EndOf(const Peer& peer, int error) const;
  Status Ended() const;
  Outgoing& Queue(Peer& peer);
  void TellWaiting(Peer& peer);
  void SendLast(Peer& peer, MessageHead head, const char* data,
                std::chrono::steady_clock::time_point until);
  uint32_t Blocking(uint64_t sends) const;
  template <typename Done>
  Status Wait(Peer* from, uint64_t sends, const Done& done, const GiveUp& give_up);
  Status Sleep(Peer* from, uint64_t sends, const GiveUp& give_up);

  const WaitPolicy policy_;
  const Disagree disagree_;
  std::function<bool()> work_;
  std::function<std::chrono::nanoseconds(uint32_t rank)> nap_;
  const RankName name_;
  const LinkHold hold_;
  std::vector<Peer> peers_;        // by node
  std::vector<uint32_t> sending_;  // nodes whose `out` is not empty
  std::vector<pollfd> polls_;      // Sleep's
  MessageHead head_;               // of the present call
  MessageHead last_;               // of the one before
  uint64_t sends_ = 0;             // of it
  uint64_t moved_ = 0;             // bytes so far, both ways
  Status verdict_;                 // what a peer said that ends our call, whomever we wait for
};

}  // namespace muster
