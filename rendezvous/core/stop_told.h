// A stop under way, as its user is told of it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "rendezvous/core/types.h"

namespace muster {

// Workers that still run, as the master knows.
uint32_t WorkersLeft(const RoundState& state);

// What a new stop with this `grace` leaves the workers: no more than the stop that goes on, whose
// end agents do not put off. Never below zero.
absl::Duration GraceLeft(const RoundState& state, absl::Duration grace, absl::Time now);

// "stopping 3 workers; what still runs in 30.0 s is killed"; `rest`: of the grace, none below zero.
std::string StopSentence(uint32_t workers_left, absl::Duration rest);

// "waiting for 3 workers (checkpointing?), 41 s left"; `guess`: " (checkpointing?)" or "".
std::string WaitSentence(uint32_t workers_left, absl::Duration rest, const std::string& guess);

}  // namespace muster
