// Who is heard of, and until when: a queue of expiries in the state. Only the master's clock
// counts.
//
// Invariants:
//  L1 each live node has exactly one entry in state.expiries, at node.watched <= node.expires;
//  L2 a renewal only moves node.expires: its entry follows when it comes up, so a beat costs no
//  queue work.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "rendezvous/core/types.h"

namespace muster {

// A timer so much too late means that the master itself did not run: that time counts against
// nobody.
inline constexpr absl::Duration kStallTolerance = absl::Milliseconds(500);

// How long a node may be without a connection. With a journal as long as it may be silent: it takes
// a connection that closes for the end of the master, and keeps its workers.
absl::Duration SuspectTime(const RoundConfig& config);

// From now on the node is lost at `expires`; earlier or later than before.
void Watch(RoundState& state, NodeId id, NodeState& node, absl::Time expires);
void Unwatch(RoundState& state, NodeId id, NodeState& node);

// Nodes that are lost now; they are no longer watched.
std::vector<NodeId> TakeExpired(RoundState& state, absl::Time now);
// When to look again; InfiniteFuture when nobody is watched. Never later than the first expiry.
absl::Time NextExpiry(const RoundState& state);

// Everybody gets a full lease (or reconnect window) from now: after a pause, or a stall of the
// master. O(N log N).
void RenewAll(const RoundConfig& config, RoundState& state, absl::Time now);

}  // namespace muster
