// A job in one sentence, for the administrator of a daemon. Pure.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "rendezvous/core/types.h"

namespace muster {

// "round 3.2 for 70.0 s: 8 workers on 2 nodes (node0, node1); 1 restart", or what it waits for,
// why it stops, how it ended. Names a few nodes. O(N).
std::string JobLine(const RoundConfig& config, const RoundState& state, absl::Time now);

}  // namespace muster
