// What restarts cost, and how long the next one waits. Pure functions over values.
//
// Three budgets hold at once: the job's (--max-restarts), and, where the user sets them, one for
// each rank and one for each node (--restarts-per-rank, --restarts-per-node). A restart counts
// against the job, the rank that failed first, and the node where that was, or that was lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "proto/base/ids.h"
#include "proto/base/restart_rules.h"

namespace muster {

// Restarts since the budgets were last full, less those free of charge.
struct RestartsUsed {
  uint32_t job = 0;
  std::map<Rank, uint32_t> by_rank;
  std::map<NodeId, uint32_t> by_node;
  bool operator==(const RestartsUsed&) const = default;
};

// Where a round's end began.
struct Origin {
  std::optional<Rank> rank;  // none: the node itself was lost
  NodeId node;
  std::string hostname;
};

void Charge(RestartsUsed& used, const Origin& origin);

// Which budget is used up for an end that begins there: "rank 5 has used its 2 restarts
// (--restarts-per-rank)"; "" = none is.
std::string UsedUp(const RestartRules& rules, uint32_t restarts_max, const RestartsUsed& used,
                   const Origin& origin);

// "2 of 3 (rank 5: 1 of 2; node1: 1 of 4)": what is used, after Charge.
std::string UsedText(const RestartRules& rules, uint32_t restarts_max, const RestartsUsed& used,
                     const Origin& origin);

// The time before the restart that follows `short_rounds` rounds in a row which lived for less than
// rules.wait_max. None after the first of them, then wait_first, twice that, and so on up to
// wait_max; each a fifth more or less, as `seed` has it, so that many jobs do not come back at one
// moment. Whole milliseconds: what a timer can keep.
absl::Duration WaitBeforeRestart(const RestartRules& rules, uint32_t short_rounds, uint64_t seed);

}  // namespace muster
