// The end of a tried connection that calls: can it be made, do small packets come through, do large
// ones, how fast. Blocking, each step with a deadline.
#pragma once

#include <string>
#include <vector>

#include "agent/probe/probe_lines.h"

namespace muster {

// Of each of `peers`, in their order. All connections are tried at the same time; the speeds of
// those that hold are then taken one after the other, as far as the time goes.
std::vector<PairResult> TryPeers(const std::vector<ProbePeer>& peers, const std::string& word);

}  // namespace muster
