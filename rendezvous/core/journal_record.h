// What of a job outlives its master, as values. The first record of a round holds the whole job;
// those after it, what has changed since. Times are of the clock of the master that wrote them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/messages.h"
#include "rendezvous/core/budget.h"

namespace muster {

// What every node's must_agree is held against, and the host whose words they are.
struct Agreement {
  std::vector<std::pair<std::string, std::string>> options;
  std::string by;  // "" = there is none yet
  bool operator==(const Agreement&) const = default;
};

// A node that is gone while the others go on, as the report shows it.
struct LostNode {
  std::string hostname;
  std::string headline;
  std::vector<uint32_t> ranks;  // that ran there until then
  absl::Time last_sign;         // of it: what failed later may have failed because of it
  NodeId node = {};
  bool operator==(const LostNode&) const = default;
};

enum class CauseKind : uint8_t { kNone, kNodeLost, kWorker, kUser, kTimeout, kNeverFormed };

// What made the present stop necessary.
enum class StopReason : uint8_t {
  kNone,
  kWorker,
  kNode,
  kUser,
  kTimeout,
  kGrowth,
  kUserRestart,
};

enum class JobPhase : uint8_t { kGathering, kRunning, kStopping, kEnding, kEnded };

// A node that rounds do without while the others are enough.
struct SetAside {
  absl::Time until;
  std::string why;
  bool operator==(const SetAside&) const = default;
};

struct DurableNode {
  NodeId node;
  Incarnation incarnation;
  Join join;                // of its life, under the key that it is kept by
  uint16_t store_port = 0;  // that it had announced
  std::optional<NodeRank> rank_kept;
  // Of a member: since which round, the newest signal order before that, and the number of exits
  // taken, less those that the record has.
  RoundId since = {};
  uint32_t signals_before = 0;
  uint32_t exits_before = 0;
};

// A round, as it starts, with all that the job is by then.
struct DurableRound {
  RoundId round;
  std::vector<DurableNode> members;  // in order of node rank
  std::vector<DurableNode> others;   // of earlier rounds: they get their places back
  uint32_t node_ids = 0;
  uint64_t incarnations = 0;
  Agreement agreed;
  // As RoundState has them.
  RoundId chain;
  std::vector<uint32_t> started_in;
};

// As Replacement, but for its times.
struct DurableReplacement {
  std::vector<uint32_t> ranks;
  std::vector<std::pair<uint32_t, std::string>> vacant;  // place, headline
  uint32_t restarts = 0;
  std::vector<std::string> lines;
  std::optional<RestartsUsed> used_before;
  bool operator==(const DurableReplacement&) const = default;
};

// Where the job stands. Small, and written anew whenever any of it changes.
struct DurableProgress {
  JobPhase phase = JobPhase::kGathering;
  StopReason stop_reason = StopReason::kNone;
  int32_t stop_signal = 0;
  absl::Duration stop_grace;
  bool stop_is_final = false;
  int32_t user_signo = 0;
  NodeId lost_id = {};
  std::string lost_node;
  std::string lost_headline;
  std::vector<SignalOrder> signals;
  DurableReplacement next;
  std::vector<uint32_t> paid_for;  // as RoundState has it
  // What restarts have cost, and what follows from it.
  RestartsUsed used;
  std::map<NodeId, uint32_t> failures;
  std::map<NodeId, SetAside> set_aside;
  uint32_t short_rounds = 0;
  absl::Time not_before = absl::InfinitePast();  // the next round; infinite past = at once
  std::string restart_text;                      // of the last restart
  absl::Duration lived;                          // the round before
  // The job and its round; a pause moves them.
  absl::Time begun;
  absl::Time round_began = absl::InfinitePast();  // infinite past = none has
  absl::Time stop_began = absl::InfinitePast();   // of a round that is being stopped
  std::optional<absl::Time> paused_since;
  // Of the report.
  uint32_t restarts = 0;
  uint32_t regroupings = 0;
  bool ended = false;
  int32_t exit_code = 0;
  CauseKind cause = CauseKind::kNone;
  std::string headline;
  std::string blamed_node;
  std::optional<Rank> first;  // whose exit is the first cause
  std::vector<std::string> history;
  bool operator==(const DurableProgress&) const = default;
};

struct DurableLoss {
  NodeId node;
  bool left = false;  // of its own will
  std::string why;
};

struct JournalRecord {
  absl::Time at;
  // When it was written, by the wall clock; infinite past = not known. For who has another clock.
  absl::Time wall_at = absl::InfinitePast();
  std::optional<DurableRound> round;  // what was before it counts no more
  // Of members, those that were news; with a round, those of the workers that it keeps.
  std::vector<Beat> exits;
  std::vector<DurableLoss> losses;   // of members
  std::vector<LostNode> lost_nodes;  // new ones of the report
  std::optional<DurableProgress> progress;
  bool IsEmpty() const {
    return !round.has_value() && exits.empty() && losses.empty() && lost_nodes.empty() &&
           !progress.has_value();
  }
};

}  // namespace muster
