// One agent's decisions: what to tell the master, which round to run, when to stop it. Pure: values
// in, effects out.
//
// Invariants (cited by tests):
//  A1 workers of two rounds never run at the same time, but for rounds that keep the workers of an
//     earlier one (Assignment::keeps_from): of those the living ones go on, and only the others are
//     started anew;
//  A2 a round is held at most once: a directive for an older or an already ended round starts
//     nothing;
//  A3 the exit of every worker started is reported, exactly once in the master's eyes (exits_from +
//     exits, numbered through the rounds that keep each other's workers);
//  A4 after the lease ended nothing runs, and nothing starts until the agent is admitted anew. If
//     it ended while the agent itself stood still (SIGSTOP to all of a job, a machine that slept),
//     the workers stand still for one more lease: they go on only with a new one, that is if the
//     master answers a beat of the same incarnation, and are killed if it does not, or says
//     anything else;
//  A5 messages for another incarnation, or from a lower epoch than seen, change nothing.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/core/types.h"
#include "proto/base/messages.h"

namespace muster {

// What ShowWaiting says of a master that has answered after it was lost.
constexpr absl::string_view kConnectedAgain = "connected to the master again";
// Begins what is shown, and the headline at last, where no master is reached.
constexpr absl::string_view kNoConnection = "no connection to the master";
// ... and where one is reached that lets this node wait.
constexpr absl::string_view kNotTakenIn = "not taken in by the master";

// Effects in the order of their execution.
std::vector<AgentEffect> Step(const AgentConfig& config, AgentState& state, const AgentEvent& event,
                              absl::Time now);

}  // namespace muster
