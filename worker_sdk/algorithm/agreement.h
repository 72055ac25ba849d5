// What the ranks of a communicator agree on before their first call: what schedules depend on, and
// where the program stands. Pure.
#pragma once

#include <array>
#include <cstdint>

#include "muster/communicator.h"
#include "muster/status.h"
#include "muster/types.h"
#include "worker_sdk/algorithm/layout.h"
#include "worker_sdk/algorithm/schedule.h"

namespace muster {

// Ranks of a node that take part in a large reduction's traffic, on nodes of at least `cpus`: a
// core each moves the data, and some are left to reduce the next chunk.
uint32_t CarriersFor(const Layout& layout, int64_t cpus);

// Chunks of `slot_bytes` that a large reduction sends ahead where a message takes so long from
// node to node: Group::ahead.
uint32_t AheadFor(int64_t microseconds, uint64_t slot_bytes);

// What all ranks must have alike.
struct Settings {
  Wire wire = Wire::kFull;
  bool check = false;
  uint32_t schedules = kScheduleVersion;
};

// A rank's settings, such that the smallest of all ranks' votes says whether all are the same.
struct SettingsVote {
  int64_t least = 0;
  int64_t most = 0;
};
SettingsVote VoteOf(const Settings& settings, uint32_t rank);
// `smallest`: each of the two over all ranks. FailedPrecondition: two ranks, and what they have.
Status CheckVotes(const SettingsVote& smallest);

// Where a rank stands when it comes into a round.
struct Standing {
  bool has_state = true;   // of the program; not in the place of one that had it
  uint64_t completed = 0;  // its last collective call that has succeeded
  uint64_t started = 0;
  int64_t committed = Agreed::kNone;
};

// Such that the smallest of all ranks' votes says what is agreed.
using StandingVote = std::array<int64_t, 5>;
StandingVote VoteOf(const Standing& standing, uint32_t rank);
// `smallest`: each number over all ranks.
Agreed AgreedOf(const StandingVote& smallest);

}  // namespace muster
