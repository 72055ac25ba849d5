// "Why are we waiting", as one sentence for people.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rendezvous/core/types.h"

namespace muster {

// "node0, node1", of many a few: "..., and 56 more".
std::string FewNames(std::vector<std::string> names);

// "waiting for 2 of 4 nodes: have node0, node1; missing node2, node3; 12.3 s, until 10 min". Names
// at most a few nodes. O(N).
std::string WhyWaiting(const RoundConfig& config, const RoundState& state, absl::Time now);

// "only 2 of 4 nodes came together within 10 min: have node0, node1; missing node2, node3; ...".
// O(N).
std::string NeverFormed(const RoundConfig& config, const RoundState& state, absl::Time now);

// Names of the configuration's `expected` that no live node stands for, in order.
std::vector<std::string> MissingNodes(const RoundConfig& config, const RoundState& state);

// For a node that is set aside.
std::string WhySetAside(const SetAside& one, absl::Time now);

// Whether `node`, which is in no round, came for what another one has that is in the round and has
// lost its connection: on the same machine, or as a pod of the same name. Only with a journal:
// without one that is over in a moment.
bool WaitsForLease(const RoundConfig& config, const RoundState& state, const NodeState& node);
// For such a node.
std::string WhyWaitsForLease(const RoundConfig& config, const RoundState& state,
                             const NodeState& node);

// Whether the user wants nodes that stand by.
bool WantsSpares(const RoundConfig& config);

// For a node that a round goes on without.
std::string WhySpare(const RoundConfig& config, const RoundState& state, absl::Time now);

}  // namespace muster
