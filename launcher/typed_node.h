// What a launch that is typed on its node settles before it joins: where the nodes meet, and what
// this node's agent is.
#pragma once

#include <uv.h>

#include <memory>

#include "absl/status/statusor.h"
#include "agent/io/agent_loop.h"
#include "launcher/job_spec.h"
#include "launcher/meet_at_file.h"

namespace muster {

// Makes of file:///path the endpoint that its nodes agreed on. Blocking, for the join time-out at
// most. `loop` outlives the meeting.
absl::StatusOr<std::unique_ptr<FileMeeting>> GoToMeeting(uv_loop_t* loop, JobSpec& spec);

// Settles what of the plan depends on this node, too.
absl::StatusOr<AgentLoop::Options> TypedAgent(JobSpec& spec);

}  // namespace muster
