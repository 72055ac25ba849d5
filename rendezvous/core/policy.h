// What follows the end of a round: a restart or none, and with which nodes.
//
// Rules:
//  P1 the first rule of --on-exit that fits the first cause decides; without one it is a restart;
//  P2 a restart happens only within every budget (budget.h), but for one free of charge: by a
//     rule, or, where the user wants restarts at all, as the master stood still;
//  P3 a node where bad_node_after counted failures began, or that a rule wants replaced, is set
//     aside for bad_node_for: no round takes it while the others are enough. Where they are not
//     when that is decided, it stays in, and the line says so;
//  P4 where only who failed is started anew (replace.cc), P1 and P2 hold for each; nothing waits,
//     and no node is set aside: the others of a place live on. One that was set aside before takes
//     a vacant place only where nobody else is there for it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "rendezvous/core/types.h"

namespace muster {

// What made a round end, as far as is known.
struct Failure {
  NodeId node;
  const ExitRecord* worker = nullptr;  // null: the node was lost
  // The master itself had stood still for longer than the lease (RoundState::stood_still).
  bool of_standstill = false;
};

// The loss of this node, of which `headline` is told.
Failure LossOf(const RoundState& state, NodeId id, const std::string& headline);
// `headline`, or that the master stood still, if that is why nodes are lost that are lost now.
const std::string& WhyLost(const RoundState& state, const std::string& headline);
// Of a worker that failed when nodes may have ended theirs as the master stood still: some have.
bool FollowsStandstill(const RoundState& state, const ExitRecord& failure);

struct Verdict {
  ExitAction action = ExitAction::kRestart;
  std::string rule;     // of --on-exit, as typed; "" = none fits
  std::string why_not;  // no restart, as a sentence; "" = there is one
};

// The rank that a worker failed for want of, where that has ended well, so that nothing replaces
// it: a replacement of this worker would miss it, too.
std::optional<Rank> MissedForEver(const RoundState& state, const Failure& failure);

// P1, P2.
Verdict Judge(const RoundConfig& config, const RoundState& state, const Failure& failure);

// False: no restart can follow, whatever fails next.
bool MayEverRestart(const RoundConfig& config, const RoundState& state);

// When the budgets are full again if the round goes on; InfiniteFuture = they are, or never.
absl::Time RefilledAt(const RoundConfig& config, const RoundState& state);

bool IsSetAside(const RoundState& state, NodeId node, absl::Time now);
// Whether a round that starts now leaves this node out (P3). O(set aside).
bool IsLeftOut(const RoundConfig& config, const RoundState& state, NodeId node, absl::Time now);
// Nodes that are ready and not set aside. O(set aside).
size_t NewcomersCount(const RoundState& state, absl::Time now);
// Nodes that a round could take now. O(set aside).
size_t ReadyCount(const RoundConfig& config, const RoundState& state, absl::Time now);
// Nodes that it could take once they are ready.
size_t LiveCount(const RoundConfig& config, const RoundState& state, absl::Time now);

}  // namespace muster
