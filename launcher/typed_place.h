// The place that a launch which is typed on its node has in the job, and how its agent holds it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "agent/io/node_hold.h"
#include "launcher/job_spec.h"

namespace muster {

// Of Join::key.
std::string PlaceKey(const JobSpec& spec, const std::string& hostname);

// Kept by the agent and its shepherd until the last of them has ended. Of a machine there may be
// several agents in a job, of which only the first has it; of a place (--node-rank) there is one at
// a time, and what is left of one that was killed is waited for, a moment. Errors as TakeNodeHold;
// the spec's job id is set.
absl::StatusOr<NodeHold> TakePlace(const JobSpec& spec);

}  // namespace muster
