// Connections between workers of two nodes, made by their agents: on demand only, and on the one
// port that a node has for everything. The node with the lower node rank connects to the other one.
//
// Loop thread only; costs nothing until a worker seeks another, but a listening socket on nodes
// other than the first. Invariants (cited by tests):
//  P1 whoever cannot prove the job's secret, or speaks of another round or of a worker that is not
//     here, is refused, and disturbs nobody else;
//  P2 a seek is answered once, unless it is forgotten before: with a socket, or with why not;
//  P3 bounds: `unproven_max` connections that have proven nothing, each for `prove_within`; if more
//     come, the oldest goes when it has had `prove_soon`; kHeldMax
//     proven ones whose worker has not sought yet, the last for each pair of workers, communicator
//     and channel; kConnectsPerNode connections under way to each node.
#pragma once

#include <uv.h>

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/core/peer_handshake.h"
#include "agent/core/rank_map.h"
#include "agent/io/peer_connection.h"
#include "agent/io/tcp_connector.h"
#include "proto/base/ids.h"
#include "proto/base/messages.h"
#include "proto/base/rng.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "proto/wire/uv_handles.h"

namespace muster {

// Times a test may shorten.
struct PeerTimes {
  absl::Duration prove_within = absl::Seconds(10);
  absl::Duration prove_soon = absl::Milliseconds(250);
  absl::Duration connect_within = absl::Seconds(20);
  // From the first try: the other agent may not have heard of the round yet.
  absl::Duration retry_for = absl::Seconds(60);
  absl::Duration retry_min = absl::Milliseconds(50);
  absl::Duration retry_max = absl::Seconds(2);
  absl::Duration say_every = absl::Minutes(1);  // lines about refusals
};

struct PeerOptions {
  std::string secret;  // of the job; "" = --insecure
  std::string job_id;
  PeerTimes times;
  // 10,000 strangers that say nothing delay one of us by 2.5 s; who is dropped tries again.
  size_t unproven_max = 1024;
};

// Two workers' ends of one communicator, as this node sees them.
struct PeerPair {
  uint64_t communicator = 0;  // as PeerHello
  uint32_t mine = 0;          // rank
  uint32_t theirs = 0;
  LinkChannel channel = LinkChannel::kCollectives;
  auto operator<=>(const PeerPair&) const = default;
};

class PeerDoor {
 public:
  static constexpr size_t kHeldMax = 65536;
  static constexpr uint32_t kConnectsPerNode = 16;

  struct Callbacks {
    // Where that node is: Found() answers, some time.
    std::function<void(NodeRank)> ask;
    // Whether this worker of ours may still seek on this communicator.
    std::function<bool(uint64_t communicator, Rank mine)> may_seek;
  };
  using Done = std::function<void(absl::StatusOr<UniqueFd>)>;

  PeerDoor(uv_loop_t* loop, PeerOptions options, Callbacks callbacks);

  // `listening`: bound to the port that this node announced; not used on the first node, nor where
  // there is only one. The map is the door's owner's, of this round, and outlives it.
  void BeginRound(const Assignment& assignment, const RankMap* ranks, UniqueFd listening);
  // For a BeginRound() on the same port; nobody is let in until then.
  UniqueFd TakeListening();
  // Nothing is sought or held any more, and the port is free.
  void EndRound();

  // A connection between the two, please; `done` may come before this returns. One open seek for a
  // pair.
  void Seek(const PeerPair& pair, Done done);
  void Found(const PeerNode& peer);
  // Workers of other nodes that are sought: `max` of them at most, others each time if there are
  // more.
  std::vector<Rank> Awaited(size_t max);
  // This worker of another node has ended: who seeks it is told.
  void Gone(Rank theirs);
  // This worker's communicator is gone: its seeks are not answered, and nothing is held for it.
  void Forget(uint64_t communicator, Rank mine);
  // This worker will open no more communicators.
  void ForgetAll(Rank mine);

  // For tests.
  size_t unproven() const { return unproven_.size(); }
  size_t held() const { return held_.size(); }

 private:
  struct Seeking {
    Done done;
    std::optional<NodeRank> to;  // we connect, to that node
    bool under_way = false;
    absl::Time give_up = absl::InfiniteFuture();
    std::unique_ptr<TcpConnector> connector;
    std::unique_ptr<PeerConnection> connection;
  };
  using Seeks = std::map<PeerPair, Seeking>;
  // A node that we connect to.
  struct Target {
    std::optional<PeerNode> at;
    std::deque<PeerPair> waiting;  // some may be forgotten
    uint32_t under_way = 0;
    absl::Duration backoff;
    std::unique_ptr<UvTimer> retry;  // none is tried before
  };
  struct Stranger {
    absl::Time since;
    std::unique_ptr<PeerConnection> connection;
  };
  using Unproven = std::list<Stranger>;

  // --- peer_door_accept.cc ---
  void Listen(UniqueFd socket);
  void Unlisten();
  void OnDoor();
  bool MayAccept();
  void Take(UniqueFd socket);
  void Judge(Unproven::iterator at);        // of one that Asks()
  void JudgeProven(Unproven::iterator at);  // ... and may be believed
  void HandOver(Unproven::iterator at);
  void Drop(Unproven::iterator at, absl::string_view why);
  void Erase(Unproven::iterator at);
  void Say(absl::string_view what);

  // --- peer_door.cc ---
  absl::StatusOr<PeerHandshake::Secrets> Secrets() const;
  void StartWaiting(NodeRank node);
  void Connected(const PeerPair& pair, absl::StatusOr<UniqueFd> socket);
  void TryFailed(const PeerPair& pair, const std::string& why, bool for_good);
  void Refuse(const std::vector<PeerPair>& pairs, const std::string& why);
  void Answer(const PeerPair& pair, absl::StatusOr<UniqueFd> result);
  void Leave(const Seeking& seek);

  uv_loop_t* const loop_;  // of the agent; outlives this
  const PeerOptions options_;
  const Callbacks callbacks_;
  uint64_t round_ = 0;  // RoundId::Token(); that of an ended one stays
  NodeRank me_;
  const RankMap* ranks_ = nullptr;  // the owner's, while the round lasts; null = none
  SplitMix64 jitter_;

  UniqueFd door_;
  std::optional<UvPoll> poll_;
  UvTimer again_;      // accept, which rests until then
  Unproven unproven_;  // the oldest first
  std::map<PeerPair, UniqueFd> held_;
  absl::Time said_ = absl::InfinitePast();
  uint64_t unsaid_ = 0;  // refusals since

  Seeks seeks_;
  std::map<NodeRank, Target> targets_;
  uint32_t awaited_after_ = 0;  // the last rank that Awaited named
};

}  // namespace muster
