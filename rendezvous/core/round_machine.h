// The master's decisions for one job: who is in, which round runs, who is dead, when the job is
// over. Pure: values in, effects out, `now` as an argument (the master's monotonic clock).
//
// Invariants (checked by invariants.h after every event in tests and in the simulator):
//  I1 the ranks of a round are exactly 0..world_size-1, without gap or overlap;
//  I2 a round id names one member list for ever, and round ids only grow;
//  I3 nothing is sent to, or believed from, an incarnation older than the node's present one;
//  I4 restarts that count never exceed restarts_max, nor the limits of a rank and of a node; one
//     free of charge does not count; the next round waits as budget.h says. A round that ends
//     because nodes came, or went where they may, is no restart, and is counted beside them: where
//     min nodes are left, the job goes on;
//  I5 the first cause, once named, does not change; the exit code follows from it;
//  I6 a round starts only with nodes_min..nodes_max ready members;
//  I7 with OnFailure::kContinue a failure stops a round only if another round follows, a worker
//     never ran, or (RestartMode::kOne) no node came to take the place of one that was lost; a
//     round that nothing stops ends when each of its workers has ended or is lost;
//  I8 a round is stopped for nodes that came only while all its workers run, at the earliest
//     kGrowthEvery after it began, and never with on_failure kContinue;
//  I9 an agent that was lost, or killed before it joined, is asked for again only by a starter, one
//     attempt at a time, at most kStartsAgainMax times within kStartsForgotten (where machines
//     return: as many lives, and others in vain), and not once the job ends;
//  I10 a worker's exit is taken once, whoever tells of it and however often, and whichever master
//     was there when it happened;
//  I11 with a journal: what follows a Persist is done only when that is durable, so nobody has
//     heard of what the next master does not know;
//  I12 a node that is set aside is in no new round while the others are enough (policy.h P3), but
//     for one that keeps workers (P4);
//  I13 a round that keeps workers (RestartMode::kOne) has the places, ranks and world of the one
//     before it, and starts at least one worker anew, in place of one that has failed or whose node
//     is lost.
// Work per event: O(log N); O(N) only when a round starts, stops or ends, and once when the job
// ends.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/messages.h"
#include "rendezvous/core/types.h"

namespace muster {

// Effects in the order of their execution.
std::vector<RoundEffect> Step(const RoundConfig& config, RoundState& state, const RoundEvent& event,
                              absl::Time now);

}  // namespace muster
