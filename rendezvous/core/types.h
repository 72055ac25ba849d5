// Values of the round machine: configuration, events, state, effects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/drill.h"
#include "proto/base/limits.h"
#include "proto/base/messages.h"
#include "proto/base/restart_rules.h"
#include "proto/base/work_plan.h"
#include "rendezvous/core/budget.h"
#include "rendezvous/core/journal_record.h"

namespace muster {

struct RoundConfig {
  std::string job_id;
  uint32_t epoch = 1;  // of this master
  // Numbers of rounds in this epoch that jobs before this one have had: its own go on from there.
  uint32_t rounds_before = 0;
  // What is decided is durable before anybody hears of it, and agents keep their workers while
  // there is no master: so a node without a connection keeps its place for as long as its lease.
  bool journal = false;
  uint32_t nodes_min = 1;
  uint32_t nodes_max = 1;
  // Nodes beyond nodes_max that may wait for a place; none = any number.
  std::optional<uint32_t> spares;
  // A starter answers StartAgain. Else who is lost may come back by itself.
  bool starts_again = false;
  // A machine that it cannot reach may be back later (ssh to one that boots, say).
  bool machines_return = false;
  // Who is refused does not come again, so that the job is over where it cannot do without.
  bool refused_is_final = false;
  uint32_t restarts_max = 0;
  RestartMode restart = RestartMode::kAll;
  RestartRules rules;
  uint64_t seed = 0;  // of what is left to chance
  // kContinue: once no restart is possible, the other workers go on when some fail.
  OnFailure on_failure = OnFailure::kStop;
  absl::Duration join_timeout =
      kJoinTimeout;                      // the whole time in which min nodes must come together
  absl::Duration last_call = kLastCall;  // after the min-th node, for more, when min < max
  absl::Duration lease = kLease;
  absl::Duration lease_slack = kLeaseSlack;
  absl::Duration reconnect_window = kReconnectWindow;
  absl::Duration beat_interval = kBeatInterval;
  absl::Duration grace = kGrace;                         // stop of the job
  absl::Duration restart_grace = kRestartGrace;          // stop of a round that is restarted
  absl::Duration time_limit = absl::InfiniteDuration();  // --timeout: the job ends with 124
  absl::Duration tell_idle = kTellIdle;  // infinite = the user is not told that workers do nothing
  bool users_at_nodes = false;           // who reads what a Tell says is not the job's user
  // A daemon's: whoever comes while nothing but the job's end is to come begins the next job of
  // that name, so it is not let in and asks again.
  bool next_job_follows = false;
  uint16_t master_port =
      0;  // 0 = the store port that node rank 0 offers; else the user's (static form)
  std::string master_addr;  // "" = address of node rank 0
  std::vector<std::string>
      expected;              // names of the nodes awaited, in order (host list): no others come
  Agreement agreed;          // of the node that serves the job; none = of the first node that joins
  std::string sigterm_told;  // the end of a job that this stops at an agent; "" = by the user
};

// Names where a reply to a not yet admitted agent goes; made by the shell, only handed back by the
// core.
struct ReplyId {
  uint64_t value = 0;
  auto operator<=>(const ReplyId&) const = default;
};

struct JoinReceived {
  ReplyId reply;
  Join join;
};
struct JoinPutOff {
  Join join;
};  // the shell has it ask again: only what it shows of the life before it counts
struct BeatReceived {
  Beat beat;
};
struct LeaveReceived {
  Leave leave;
};
struct LinkClosed {
  NodeId node;
  Incarnation incarnation;
};  // the agent's connection ended
struct StartFailed {
  std::string key;
  std::string reason;
  uint32_t attempt = 0;  // that of StartAgain; 0 = the job's own first start
  bool killed = false;   // its agent had answered, and was killed, or cut off, before it joined
};                       // a starter gave up on a node (ssh refused ...)
struct StopAsked {
  int32_t signo = 0;
  bool now = false;
  std::optional<absl::Duration> grace = std::nullopt;  // none = that of the configuration
  std::string told = "";                               // how the job has ended then; "" = by this
};                                                     // by the user; now = second Ctrl-C
struct SignalAsked {
  int32_t signo = 0;
};  // pass on to every worker, nothing else
struct PauseAsked {
  bool paused = false;
};
struct DrillAsked {
  uint64_t ask = 0;    // comes back in its OrderAnswered
  DrillOrder drill;    // without `seq` and `worker`
  std::string target;  // a rank, or a node as people name it
};
struct RestartAsked {
  uint64_t ask = 0;  // likewise
};  // by the user: another round is to follow the one that runs, whatever the budgets say
struct NewsForUser {
  std::string text;
};  // of what the shell has found, for the job's user
struct TimePassed {};
using RoundEvent = std::variant<JoinReceived, JoinPutOff, BeatReceived, LeaveReceived, LinkClosed,
                                StartFailed, StopAsked, SignalAsked, PauseAsked, DrillAsked,
                                RestartAsked, NewsForUser, TimePassed>;

// What follows it is done only when this is durable.
struct Persist {
  JournalRecord record;
};
struct Reply {
  ReplyId to;
  MasterMessage message;
  bool asks_again = false;  // Refused, but only for now: its call ends so that it comes again
};                          // Admitted or Refused
struct Send {
  NodeId node;
  Incarnation incarnation;
  Directive directive;
};
struct Tell {
  std::string text;
};  // a line for the user's terminal (progress, warnings)
struct ArmTimer {
  absl::Time at;
};  // send TimePassed then; replaces the earlier one
struct DropLink {
  NodeId node;
  Incarnation incarnation;
};  // close the connection of a dead or replaced life
struct RoundStarted {
  RoundId round;
  uint32_t world_size = 0;
  uint32_t nodes = 0;
};
struct WorkersStarted {
  RoundId round;
  uint32_t world_size = 0;
  uint32_t nodes = 0;
};  // every worker of the round runs, or ran; at most once a round
struct NodeMissing {
  RoundId round;
  uint32_t place = 0;  // among the members
  std::string why;     // a sentence
};                     // the round goes on without this node: nobody is to wait for it
// The agent of a lost node is wanted again, as a new life. Answered by its Join, or by StartFailed
// with this attempt.
struct StartAgain {
  std::string key;
  uint32_t attempt = 0;  // from 1 on
  uint32_t failed = 0;   // of those before it, in a row, where machines return
};
struct SignalHeard {
  NodeId node;
  int32_t signo = 0;
};  // an agent has been sent it by the scheduler; others may have been, too
struct OrderAnswered {
  uint64_t ask = 0;
  bool ok = false;   // what was asked for is on its way
  std::string text;  // a sentence
};
struct JobEnded {};  // state.report is final; every node has been told or is lost
using RoundEffect =
    std::variant<Persist, Reply, Send, Tell, ArmTimer, DropLink, RoundStarted, WorkersStarted,
                 NodeMissing, StartAgain, SignalHeard, OrderAnswered, JobEnded>;

// One worker's end, as the report shows it.
struct ExitRecord {
  RoundId round;
  NodeId node;
  std::string hostname;
  WorkerExit exit;
  absl::Time seen;  // master's clock, less the age the agent gave
};

// What a node's workers have used, as its agent said last.
struct UseRecord {
  std::string hostname;
  NodeUse use;
};

struct JobReport {
  bool ended = false;
  int32_t exit_code = 0;
  std::string headline;  // "rank 3 on node1 (pid 4711) was ended by SIGSEGV (segmentation fault)
                         // after 1.2 s"
  CauseKind cause = CauseKind::kNone;
  std::optional<ExitRecord> first;  // kWorker: the first cause
  std::string lost_node;            // kNodeLost: its host name
  std::vector<ExitRecord>
      exits;  // of the last round: all that failed or were stopped (bounded by world size)
  std::vector<uint32_t> ended_well;  // ranks of the last round that did so by themselves
  std::vector<LostNode> lost_nodes;  // of the last round, where it went on without them
  uint32_t restarts = 0;             // all of them, also those that no budget counts
  uint32_t restarts_used = 0;        // of the job's budget, when the job ended
  uint32_t restarts_max = 0;
  std::string no_restart;    // why the last round was not started again, where that could be
  uint32_t regroupings = 0;  // rounds that ended as nodes came or went: these are no restarts
  uint32_t requeued = 0;     // how often the scheduler started the whole job again, as launch knows
  // One line for each earlier round, why it ended and what followed: of the last ones.
  std::vector<std::string> history;
  std::vector<UseRecord> uses;  // of the last round's nodes, in order of node rank, where known
};

enum class NodeStatus : uint8_t { kAlive, kSuspect, kLost, kLeft };

struct NodeState {
  Join join;  // of the present life
  Incarnation incarnation;
  NodeStatus status = NodeStatus::kAlive;
  AgentPhase phase = AgentPhase::kReady;
  RoundId round;  // as its last beat said
  uint16_t store_port = 0;
  uint32_t workers_alive = 0;
  bool paused = false;        // its workers stand still, as its last beat said
  int32_t leaves = 0;         // likewise: the signal by which it was told to
  std::vector<int32_t> pids;  // of its workers in `round`, by local rank; empty = not told
  NodeUse use;                // as its last beat said
  uint32_t exits_seen = 0;    // of `round`, and of earlier ones whose workers it keeps
  uint32_t exits_ok = 0;      // by themselves
  uint32_t exits_failed = 0;  // likewise; without those that are replaced
  uint32_t signals_done = 0;
  std::vector<DrillOrder> drills;  // that it has not said to be done
  uint32_t signals_before = 0;     // of the orders those that are older than its place in the round
  std::map<int32_t, uint32_t> heard_signals;  // the scheduler's, how often
  uint64_t beat_seq_last = 0;
  absl::Time expires;  // lost then (lease + slack, or the reconnect window)
  // Time of its entry in `expiries`, never after `expires`; InfinitePast = it has none.
  absl::Time watched = absl::InfinitePast();
  absl::Time admitted;                // this life
  absl::Time heard;                   // receipt of its last beat or Join
  absl::Time last_sign;               // the same, or the end of its connection since then
  NodeId behind;                      // the node whose key it asked for, which had it; 0 = none
  std::optional<NodeRank> rank_kept;  // of the first round it was in: it gets it back
  int32_t place = -1;  // index in `members`, as this incarnation; -1 = not in the present round
  std::string lost_why;
  bool awaited = false;  // since this master took the job over from the journal
  bool ended = false;    // it has acknowledged kEnd (left, or link closed after it)

  bool IsLive() const { return status == NodeStatus::kAlive || status == NodeStatus::kSuspect; }
};

// A lost node whose agent is started again. The tries are forgotten when it lives for long.
struct Comeback {
  uint32_t attempt = 0;                     // of StartAgain: each has its own
  uint32_t tries = 0;                       // that count
  uint32_t failed = 0;                      // starts in a row, where machines return
  bool awaited = false;                     // it has not come, and is not given up
  absl::Time due = absl::InfiniteFuture();  // of StartAgain; infinite future = it was sent
};

struct Member {
  NodeId node;
  Incarnation incarnation;
  Rank rank_first;
  uint32_t workers = 0;
  std::vector<uint32_t> ranks;  // as its Join asked; empty = from rank_first on
  uint16_t port = 0;            // that its node had announced when the round started
  RoundId since;                // the round with which this node took the place
  bool Runs(Rank rank) const;
  uint32_t RankAt(uint32_t local) const {
    return ranks.empty() ? rank_first.value + local : ranks[local];
  }
};

// How the present round came to follow another.
struct RestartRecord {
  Origin origin;
  std::optional<WorkerExit> worker;  // the first cause; none = the node was lost
  bool by_user = false;              // neither of them: `launch restart`
  bool of_standstill = false;        // ... as the master stood still (RoundState::stood_still)
  ExitAction action = ExitAction::kRestart;
  absl::Time decided = absl::InfinitePast();     // infinite past = no restart yet
  absl::Time not_before = absl::InfinitePast();  // the next round
  std::string text;                              // "restart 2 of 3"
};

// A place whose node is lost.
struct Vacancy {
  absl::Time free_at;  // for other nodes: the workers of the lost one have ended by then
  std::string headline;
};

// What the next round that keeps workers starts anew (replace.cc). Nothing: none is due.
struct Replacement {
  std::set<uint32_t> ranks;  // that failed, on nodes that are there
  std::map<uint32_t, Vacancy> vacant;
  uint32_t restarts = 0;                    // that it costs; the budgets are charged
  std::optional<RestartsUsed> used_before;  // what was used before these
  std::vector<std::string> lines;           // one for each of these
  absl::Time since;                         // when the first place became vacant
  bool IsNone() const { return ranks.empty() && vacant.empty(); }
};

struct RoundState {
  JobPhase phase = JobPhase::kGathering;
  RoundId round;                // the present or last one
  std::vector<Member> members;  // of `round`, in order of node rank
  uint32_t world_size = 0;
  std::set<NodeId> unstarted;  // members whose workers have not all been started, as they said
  std::map<NodeId, NodeState> nodes;
  std::map<std::string, NodeId> by_key;
  std::map<uint64_t, NodeId> by_life;                // every life ever admitted
  std::map<int32_t, NodeId> by_wish;                 // the node that asked last for this place
  std::set<std::pair<absl::Time, NodeId>> expiries;  // alive and suspect nodes only, one entry each
  std::map<uint64_t, absl::Time> contenders;  // lives that ask for a place that is held, since when
  std::map<std::string, std::string> refused;  // while others gather: why, by host name; of a few
  uint32_t live = 0;                           // nodes alive or suspect
  uint32_t awaited = 0;                        // nodes that are
  std::set<NodeId> ready;  // alive, kReady with a port, and not in a round that goes on
  // By rank: has ended by itself, or its node is lost. Nobody needs to wait for it.
  std::vector<bool> ended;
  // By rank: the end of its present life has been told, however it ended. Another one is not true.
  std::vector<bool> told;
  uint32_t finished = 0;  // workers of `round` that ended well by themselves
  // The first round of those that keep each other's workers up to `round`; `round` where it has
  // started all anew.
  RoundId chain;
  // By rank: as Assignment::started_in; of RestartMode::kOne, else empty.
  std::vector<uint32_t> started_in;
  Replacement next;
  // Members that are lost and keep their places, as their workers had ended, or as the others go on
  // without them: they take no other place.
  std::set<NodeId> lost_in_place;
  // Ranks that another one blamed for its own failure, which has cost a restart: theirs does not.
  std::set<uint32_t> paid_for;
  std::set<uint32_t> blamed;          // ranks whose end others named as why they failed in `round`
  std::set<std::string> unlike_told;  // of files of the program, to the user
  // Workers that do nothing for so long are told of next, in this round.
  absl::Duration tell_idle = absl::InfiniteDuration();
  RoundId idle_round;
  absl::Time idle_looked = absl::InfinitePast();
  uint32_t failures_told = 0;  // on the user's terminal, of `round`, while it goes on
  // Who is still awaited. Running: members whose workers have not all ended; stopping: members
  // that have not reported everything; ending: nodes that have not acknowledged.
  std::set<NodeId> pending;
  std::set<std::string> start_failed;                          // keys that a starter gave up on
  std::map<std::string, Comeback> comebacks;                   // by key
  std::set<std::pair<absl::Time, std::string>> comebacks_due;  // those with StartAgain to come
  uint32_t coming = 0;                                         // comebacks that are awaited
  uint32_t node_ids = 0;                                       // given out
  uint64_t incarnations = 0;
  absl::Time begun = absl::InfinitePast();            // first event; infinite past = none yet
  absl::Time gathering_since = absl::InfinitePast();  // infinite past = not begun
  bool restarting = false;                            // this gathering follows a round
  absl::Time last_call_at = absl::InfiniteFuture();
  absl::Time round_began = absl::InfinitePast();
  // Running: the round is stopped then, for one with the nodes that wait; infinite future = not.
  absl::Time grow_at = absl::InfiniteFuture();
  absl::Duration lived;  // the round before
  RestartsUsed used;
  uint32_t short_rounds = 0;            // in a row, as budget.h counts them
  RestartRecord last_restart;           // none = default
  std::map<NodeId, uint32_t> failures;  // that began there and counted, since it was set aside last
  std::map<NodeId, SetAside> set_aside;  // also those whose time is over, until they fail again
  int32_t stop_signal = 0;
  absl::Duration stop_grace;
  bool stop_is_final = false;  // no restart after this stop
  StopReason stop_reason = StopReason::kNone;
  absl::Time stop_began = absl::InfinitePast();
  int32_t user_signo = 0;                    // kUser: what the user sent
  std::optional<absl::Duration> user_grace;  // ... and leaves the workers
  NodeId lost_id;                            // kNode: which
  std::string lost_node;                     // kNode: host name
  std::string lost_headline;                 // of stop_reason, where no worker is it: the line
  std::vector<SignalOrder> signals;          // of the present round
  uint32_t drills = 0;                       // asked for so far
  bool paused = false;
  absl::Time paused_since;
  Agreement agreed;  // of the first node; counts where the configuration has none

  // Of the present round, for its assignments.
  std::string master_addr;
  uint16_t master_port = 0;
  bool one_host = false;
  std::vector<std::pair<uint32_t, uint32_t>> layout;
  std::vector<uint32_t> ranks_by_node;

  // "Why are we waiting".
  std::string note;                               // kWait carries it
  absl::Time note_made = absl::InfinitePast();    // when
  bool note_stale = true;                         // who is there has changed since
  absl::Time next_tell = absl::InfiniteFuture();  // to the user's terminal
  absl::Time timer_at = absl::InfiniteFuture();   // what ArmTimer said last
  absl::Time stepped_at = absl::InfinitePast();   // the last event
  // The master stood still for longer than a lease, so that nodes have ended their workers: the
  // sentence, which is why those are lost that are by then. "" = it has not.
  std::string stood_still;
  absl::Time stood_still_tells = absl::InfinitePast();
  // Since when: the first lease may have ended.
  absl::Time stood_still_from = absl::InfinitePast();
  DurableProgress journaled;        // as the journal has it
  size_t lost_nodes_journaled = 0;  // of report.lost_nodes
  JobReport report;
  // The implementation may add fields it needs; every field has a comment that says what it means.
};

// The node is a member of the present round, whose workers run, or are told to end.
bool InRound(const RoundState& state, const NodeState& node);

// Nothing but the end of the job is to come, or it has ended: no newcomer changes that.
bool OnlyEnds(const RoundState& state);

// The name of the round that follows the present one: no other has it in this epoch.
RoundId NextRound(const RoundConfig& config, const RoundState& state);

}  // namespace muster
