// What agents and the master tell each other, as values: the cores' language. proto/wire turns them
// into protobuf.
//
// Rules:
//  1. Level, not edge: a beat says everything the agent holds, a directive everything it should
//  hold. Losing,
//     repeating or reordering any of them changes nothing but the time it takes.
//  2. A beat carries (node, incarnation); the master drops what comes from an older life.
//  3. A directive names the beat it answers; only that renews the lease (from the beat's SEND
//  time).
//  4. An exit is in every beat until a directive says it was seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/drill.h"
#include "proto/base/ids.h"

namespace muster {

// ---------------------------------------------------------------------------------------------------------------
// agent -> master

enum class ExitKind : uint8_t {
  kExited,       // code = exit status
  kSignaled,     // code = signal number
  kSpawnFailed,  // never ran; code = errno of what failed (ENOENT: 127, EACCES or ENOEXEC: 126),
                 // `detail` says what
};

struct WorkerExit {
  LocalRank local_rank;
  Rank rank;
  int32_t pid = 0;
  ExitKind kind = ExitKind::kExited;
  int32_t code = 0;
  bool core_dumped = false;
  bool oom_killed = false;     // the memory cgroup counted a kill
  bool stopped_by_us = false;  // a stop had been asked for before it ended: never a cause
  absl::Duration ran_for;
  absl::Duration age;  // since the exit was seen, at the moment of sending
  uint64_t rss_max_bytes = 0;
  // Spawn failure: "chdir /x: No such file or directory"; else what its MPI said, "" if nothing.
  std::string detail;
  std::string error_message;  // of the torch error file, "" if none
  // That file was written so long before it ended; none: there is none.
  std::optional<absl::Duration> error_before;
  std::string stderr_tail;  // last lines, at most kStderrTailBytes
  // The rank whose end made a call of libmuster fail in it, the first such one; as the worker says.
  std::optional<Rank> because_of;

  // What a shell would report: code, 128 + signal, 127 or 126.
  int ExitCode() const;
  bool Ok() const { return kind == ExitKind::kExited && code == 0; }
};

// What only one life of an agent, and what is below it, can have at a time (agent/io/node_hold.h):
// who has it later shows that the one before has ended. A Join may be late; its Hold tells.
struct Hold {
  std::string id;      // "" = none
  uint64_t taken = 0;  // ns of its machine's clock since the boot
};

// The file of a program of the job on one node, for comparison with that of the others.
struct ProgramFile {
  std::string name;  // as people know it; "" = there is nothing to compare
  std::string mark;  // of what is in it; "" = there is no such file
  auto operator<=>(const ProgramFile&) const = default;
};

struct Join {
  std::string key;  // stable identity of the node within the job ("list/3", "rank/3", machine id)
  bool key_is_exact =
      false;          // a second live holder of the key replaces the first; else it is another node
  uint64_t life = 0;  // one per agent process: a repeated Join of one life is one admission
  int32_t node_rank =
      -1;  // the place asked for (host list order, --node-rank); -1 = order of joining
  std::string hostname;   // for people
  std::string address;    // how other nodes reach this one; the service fills it in where the agent
                          // left it ""
  std::string interface;  // that carries it, for people
  // Others that connections of its workers may come from, at most kNodeAddressesMax.
  std::vector<std::string> addresses;
  uint32_t workers = 0;     // it will run
  uint16_t store_port = 0;  // bound by the agent for the next round's MASTER_PORT
  // Kept free for its workers, by local rank; empty = they want none (--dialect tf).
  std::vector<uint16_t> worker_ports;
  bool agent_store = false;  // its workers' torch can be a client of an agent's store
  std::vector<std::pair<std::string, std::string>>
      must_agree;  // option and value that must be equal on all nodes
  // Of its workers, in order of their local ranks; empty = the next ones behind the node before.
  std::vector<uint32_t> ranks;
  // What the agent found wrong with its node, for people; at most kDoubtsMax.
  std::vector<std::string> doubts;
  // By number of the program, of the first kProgramFilesMax; empty = none of them is compared.
  std::vector<ProgramFile> program_files;
  RoundId holds;  // the round whose workers it has; none = it holds nothing
  Hold hold;
};

enum class AgentPhase : uint8_t {
  kReady,     // runs nothing; every exit of `round` is reported; a store port for the next round is
              // bound
  kRunning,   // holds `round`, even when some or all of its workers have ended
  kStopping,  // ends the workers of `round`
};

// What the scheduler has sent to an agent of its step, and how often.
struct HeardSignal {
  int32_t signo = 0;
  uint32_t times = 0;
  auto operator<=>(const HeardSignal&) const = default;
};

// Workers of a node that wait for the same.
struct WaitPlace {
  std::string what;              // as the kernel sees it, for people: "recv: TCP 10.0.0.1:29500"
  int32_t pid = 0;               // of the first
  std::vector<uint32_t> locals;  // their local ranks, ascending
  bool operator==(const WaitPlace&) const = default;
};

// What the workers of a node have used since its agent started the first of them.
struct NodeUse {
  uint32_t workers = 0;     // of the round held last; 0 = nothing is known
  uint32_t cpus = 0;        // that they may use, whole ones
  absl::Duration lasted;    // so far
  absl::Duration cpu_time;  // of those that have ended, with every thread they ever had
  absl::Duration ran;       // on a CPU: of all threads that were looked at, as seen last
  absl::Duration waited;    // for one, though ready to run: likewise
  absl::Duration pressed;   // of `lasted`: any process of the node waited for a CPU
  absl::Duration idle;      // so far: none of the workers that live ran, wrote or counted a step
  std::vector<WaitPlace> waits;  // while idle, where that is known; at most kWaitPlacesMax
  uint64_t steps = 0;            // between a worker's first Commit() and its last
  absl::Duration steps_took;     // the time between these
  bool operator==(const NodeUse&) const = default;
};

struct Beat {
  NodeId node;
  Incarnation incarnation;
  uint64_t seq = 0;  // grows; the directive that answers names it
  AgentPhase phase = AgentPhase::kReady;
  RoundId round;            // held, or last held when kReady
  uint16_t store_port = 0;  // kReady: for the next round
  uint32_t workers_alive = 0;
  uint32_t workers_started = 0;  // of `round`: whose program runs, or ran
  // Of the workers, by local rank, once all have been started; only if WorkPlan::tell_pids.
  std::vector<int32_t> pids;
  uint32_t exits_from = 0;  // number of the first of `exits` since the agent started from nothing
  std::vector<WorkerExit> exits;  // not yet seen by the master, at most kExitsPerBeatMax
  uint32_t signals_done = 0;      // orders carried out so far
  uint32_t drills_done = 0;       // likewise: the last one's number
  bool paused = false;
  int32_t stop_asked =
      0;  // signal by which the user stopped the job at this agent (typed on every node)
  bool kill_asked = false;  // ... and insisted
  int32_t leaves = 0;       // signal by which the user ended this node's part: Leave follows
  RoundId restart_asked;    // the user wants another one to follow this round; none = nobody asks
  // Nodes of `round` whose address this node's workers need, at most kPeersPerBeatMax.
  std::vector<NodeRank> sought;
  // Workers of other nodes with whom connections are awaited, at most kPeersPerBeatMax.
  std::vector<Rank> awaited;
  std::vector<HeardSignal> heard;  // in the life of this agent, at most kHeardSignalsMax
  NodeUse use;
};

struct Leave {  // the agent ends of its own will
  NodeId node;
  Incarnation incarnation;
  std::string reason;
};

using AgentMessage = std::variant<Join, Beat, Leave>;

// ---------------------------------------------------------------------------------------------------------------
// master -> agent

struct Admitted {
  uint64_t life = 0;  // of the Join it answers
  NodeId node;
  Incarnation incarnation;
  absl::Duration beat_interval;
  absl::Duration lease;
  uint32_t epoch = 0;  // of the master; an agent refuses a lower one than it has seen
  // The master has a journal: when its connection closes, workers go on until the lease ends.
  bool journal = false;
};

struct Refused {
  uint64_t life = 0;
  std::string reason;  // for the user: names the option, both values, the next step
};

// Where a node of a round takes connections for its workers.
struct PeerNode {
  NodeRank node_rank;
  std::string address;
  uint16_t port = 0;
  auto operator<=>(const PeerNode&) const = default;
};

// What is kept free for the workers of a node.
struct WorkerPorts {
  std::string address;
  std::vector<uint16_t> ports;  // by local rank
  auto operator<=>(const WorkerPorts&) const = default;
};

struct Assignment {
  RoundId round;
  NodeRank node_rank;
  uint32_t nodes = 0;
  Rank rank_first;       // of this node's workers, where `ranks` is empty
  uint32_t workers = 0;  // on this node
  uint32_t world_size = 0;
  std::string master_addr;
  uint16_t master_port = 0;
  bool agent_store = false;  // torch's store is the agent's of rank 0's node, else rank 0's own
  // To the node of rank 0, which serves the store: every address that the round's nodes have named.
  std::vector<std::string> worker_addresses;
  // By node rank; empty unless every node keeps ports, or where the world is above
  // kWorkerPortsMax.
  std::vector<WorkerPorts> worker_ports;
  uint32_t restart_count = 0;  // of the whole job
  uint32_t restarts_max = 0;
  std::string because;  // how the round before it ended, as the master tells; "" = it is the first
  bool one_host = false;  // all nodes of the round have one address or loopback ones
  // Workers of each node as runs {workers, nodes} in node order, for names that need the whole
  // layout (SLURM_TASKS_PER_NODE, HOROVOD_CROSS_RANK, the SDK).
  std::vector<std::pair<uint32_t, uint32_t>> layout;
  std::vector<uint32_t> ranks;  // of this node's workers, as Join asked for them
  // Of all workers, node by node, by local rank; empty = they ascend with the nodes. Told where the
  // nodes asked for their ranks.
  std::vector<uint32_t> ranks_by_node;
  // Workers that live since this round, or a later one before `round`, go on in `round`; none where
  // all are started by it.
  RoundId keeps_from;
  // By local rank: the number of the round that started the worker, or is to; 0 = it has ended
  // well, and none does. Empty = no later round will keep workers of this one.
  std::vector<uint32_t> started_in;
  // A round that keeps workers starts it in place of one that failed.
  bool IsReplacement(LocalRank local) const {
    return !keeps_from.IsNone() && started_in[local.value] > keeps_from.n;
  }
  bool HasEndedWell(LocalRank local) const {
    return !started_in.empty() && started_in[local.value] == 0;
  }
  Rank RankOf(LocalRank local) const {
    return ranks.empty() ? Rank{rank_first.value + local.value} : Rank{ranks[local.value]};
  }
  auto operator<=>(const Assignment&) const = default;
};

enum class Wanted : uint8_t {
  kWait,  // hold nothing new; `note` says for what
  kRun,   // hold `round`
  kStop,  // end the workers of `round`, then be kReady
  kEnd,   // the job is over: end everything, report `outcome`, go
};

struct SignalOrder {
  uint32_t seq = 0;  // 1, 2, ...
  int32_t signo = 0;
  auto operator<=>(const SignalOrder&) const = default;
};

// How the job ended; the same on every node.
struct JobOutcome {
  int32_t exit_code = 0;
  std::string headline;  // one line for people, "" for success
};

struct Directive {
  NodeId node;
  Incarnation incarnation;
  uint64_t beat_seq = 0;  // answers this beat; 0 = sent unasked
  Wanted wanted = Wanted::kWait;
  RoundId round;
  Assignment assignment;             // kRun, as long as the agent's beats do not hold `round`
  int32_t stop_signal = 0;           // kStop, kEnd: first signal; 0 = SIGKILL at once
  absl::Duration grace;              // then SIGKILL after this
  bool stop_is_final = false;        // kStop: no round follows
  uint32_t exits_seen = 0;           // of the agent's round, numbered as in its beats
  std::vector<SignalOrder> signals;  // not yet done by the agent
  std::vector<DrillOrder> drills;    // likewise
  bool paused = false;  // stop the workers' clocks (SIGSTOP), suspend the lease while connected
  std::string note;     // kWait: what the job waits for, as a sentence
  JobOutcome outcome;   // kEnd
  std::vector<PeerNode> peers;  // those of `round` that the beat it answers sought
  std::vector<Rank> gone;       // of its `awaited`: they have ended, or their node is lost
  // Of `round`, where a later one may keep workers: one that has ended well, and none takes its
  // place.
  std::optional<Rank> ended_well;
  // Lines for the user at this node: said once, lost with the connection that they were sent on.
  std::vector<std::string> notices;
};

using MasterMessage = std::variant<Admitted, Refused, Directive>;

}  // namespace muster
