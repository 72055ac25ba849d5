// Values of the agent machine: configuration, events, state, effects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/limits.h"
#include "proto/base/messages.h"

namespace muster {

struct AgentConfig {
  Join join;                // as it will be sent; its ports are filled in from StorePortReady
  bool tell_pids = false;   // WorkPlan::tell_pids
  bool hold = false;        // WorkPlan::hold
  bool in_process = false;  // the master lives in this process: no lease, no reconnecting
  absl::Duration join_retry = absl::Seconds(1);         // until admitted, with the link up
  absl::Duration join_timeout = kJoinTimeout;           // not admitted for so long: give up
  absl::Duration master_lost_grace = kMasterLostGrace;  // link closed: TERM, then KILL after this
  absl::Duration grace = kGrace;  // ... where the scheduler ends the whole job
};

struct LinkUp {};  // a connection to the master stands
struct LinkDown {
  std::string why;
  bool final = false;  // there will never be another one: the channel that started this agent ended
  bool told = false;   // `why` is the master's: it cannot take this node in yet
};
struct MessageReceived {
  MasterMessage message;
};
struct StorePortReady {
  uint16_t port = 0;
  std::vector<uint16_t> worker_ports = {};  // Join's; the same each time
};                                          // answers OpenStore
struct StorePortFailed {
  std::string why;
};  // answers OpenStore, or comes later: waiting would not mend it
struct WorkerSpawned {
  RoundId round;
  LocalRank local_rank;
  int32_t pid = 0;
};
struct WorkerEnded {
  RoundId round;
  WorkerExit exit;
  bool alone = true;  // nothing that descends from workers is left on this node
};                    // also for kSpawnFailed; exit.age is ignored
struct GroupsEnded {
  RoundId round;
};  // answers AwaitGroups
struct RoundCleared {
  RoundId round;
};  // after KillRound or the last exit: no descendant is left, output drained
struct UserStop {
  int32_t signo = 0;
  bool now = false;
  std::string told = "";  // how the job has ended then, without a master; "" = by this
  bool leaves = false;    // only this node's part ends: others may go on with what is left
};                        // signal at an agent the user started himself
struct UserRestart {};    // by the same: another round is to follow the one held
struct SchedulerSignal {
  int32_t signo = 0;
};  // at an agent that is a task of the scheduler's, as are those of the other nodes
struct PeerSought {
  RoundId round;
  NodeRank node_rank;
};  // its workers' connections go there; answered by PeerFound
struct PeersAwaited {
  RoundId round;
  std::vector<Rank> ranks;  // all of them, or as many as one beat tells
};                          // workers of other nodes with whom ours wait to be connected
struct UseSeen {
  NodeUse use;
};                     // goes with the next beat
struct RestShown {};   // answers ShowRest
struct LeaseEnded {};  // the shepherd has killed all workers, whose exits came before this
struct TimeElapsed {};
using AgentEvent =
    std::variant<LinkUp, LinkDown, MessageReceived, StorePortReady, StorePortFailed, WorkerSpawned,
                 WorkerEnded, GroupsEnded, RoundCleared, PeerSought, PeersAwaited, UserStop,
                 UserRestart, SchedulerSignal, UseSeen, RestShown, LeaseEnded, TimeElapsed>;

struct SendToMaster {
  AgentMessage message;
};
struct Drill {
  DrillOrder order;
};                    // `launch chaos`: do it to this node
struct OpenStore {};  // bind a port for the next round; answered by StorePortReady or -Failed
struct SpawnRound {
  Assignment assignment;
};  // start all workers of it
struct KeepRound {
  Assignment assignment;
  std::vector<LocalRank> starts;
};  // living workers go on in it; these are started, each after what descends from its last life
    // ended
struct SignalRound {
  RoundId round;
  int32_t signo = 0;
  bool stops = false;  // the round, and is not only passed on
};                     // to every process group of its workers, and of what they have started
struct ReleaseHeld {
  RoundId round;
};  // nobody came for the workers that were held: SIGCONT to every one, and a line that says so
struct KillRound {
  RoundId round;
};  // SIGKILL to everything that descends from its workers; then RoundCleared
struct AwaitGroups {
  RoundId round;
};  // all exits are in, after a stop: GroupsEnded once no group that got its signal, and is of the
    // workers' session, has a living member. A KillRound may come first
struct CloseRound {
  RoundId round;
  absl::Duration drain;
};  // all exits are in: for so long what descends from them may write on, if it has their output
    // open; then end it, store, files; RoundCleared
struct EndDrain {
  RoundId round;
};  // after its CloseRound: the drain has no more time
struct PeerFound {
  PeerNode peer;
};  // of the round held; once for each that is sought
struct PeerGone {
  Rank rank;
};  // of the round held, one of PeersAwaited: it will not connect
struct MeetNoMore {
  Rank ended_well;
};  // all ranks of the round held cannot any more: this one has ended, and none takes its place
struct SetLease {
  absl::Time until;
};  // for the shepherd; InfiniteFuture = none. What stands still as its lease has ended goes on
struct SetTimer {
  absl::Time at;
};  // send TimeElapsed then; replaces the earlier one
struct ShowWaiting {
  std::string note;
};  // changes of "what the job waits for"
struct ShowNotice {
  std::string text;
};                   // a line for the user at this node
struct ShowRest {};  // no worker will run again: all that they wrote is shown; then RestShown
struct Finish {
  JobOutcome outcome;
  bool all_shown = true;  // false: the master, through which it is shown, is gone
};                        // the agent's work is over; everything is cleared
using AgentEffect =
    std::variant<SendToMaster, Drill, OpenStore, SpawnRound, KeepRound, SignalRound, ReleaseHeld,
                 KillRound, AwaitGroups, CloseRound, EndDrain, PeerFound, PeerGone, MeetNoMore,
                 SetLease, SetTimer, ShowWaiting, ShowNotice, ShowRest, Finish>;

struct WorkerState {
  int32_t pid = 0;
  bool ended = false;
  bool ended_well = false;
  uint32_t started_in = 0;  // as Assignment::started_in
};

struct AgentState {
  // not admitted yet, or admitted as (node, incarnation)
  bool link_up = false;
  bool admitted = false;
  NodeId node;
  Incarnation incarnation;
  uint32_t epoch_max = 0;
  absl::Duration beat_interval = kBeatInterval;
  absl::Duration lease = kLease;
  bool master_returns = false;  // it has a journal: workers go on without it, until the lease ends

  AgentPhase phase = AgentPhase::kReady;
  RoundId round;  // held or last held
  std::optional<Assignment> assignment;
  std::vector<WorkerState> workers;  // by local rank, of `round`
  uint32_t workers_alive = 0;
  uint32_t workers_started = 0;        // of `round`: that have a pid, or had one, or need none
  uint16_t store_port = 0;             // 0 = being opened
  std::vector<uint16_t> worker_ports;  // Join's

  // Since the agent started `round`, or the first of those that keep its workers, from nothing: in
  // order seen, with the time; without the first `exits_dropped`, which the master has seen.
  std::vector<std::pair<WorkerExit, absl::Time>> exits;
  uint32_t exits_dropped = 0;
  uint32_t exits_acked = 0;   // of `exits`
  uint32_t signals_done = 0;  // of `round`
  uint32_t drills_done = 0;   // in the life of this agent
  bool stop_sent = false;     // a stop signal went to the workers of `round`
  absl::Time stopped_at;      // then, or when they were killed without one
  bool alone =
      true;  // nothing is left that a stop gives time: by the last WorkerEnded, or GroupsEnded
  bool saving = false;       // AwaitGroups is out, until GroupsEnded or kill_at
  bool killed = false;       // KillRound went out for `round`
  bool clearing = false;     // CloseRound or KillRound is out, RoundCleared is awaited
  bool draining = false;     // ... and there was time for CloseRound's drain
  bool keep_awaits = false;  // ... and then the round that keeps what there is of `round`
  RoundId stop_up_to;        // neither `round` nor a later one up to this will be started
  absl::Time kill_at = absl::InfiniteFuture();
  absl::Time held_until = absl::InfiniteFuture();  // of `round`, unless somebody comes for them

  std::set<NodeRank> sought;   // of `round`: whose address is not known yet
  uint64_t sought_in = 0;      // last beat that said so
  std::vector<Rank> awaited;   // of `round`, as PeersAwaited said last
  bool meets_no_more = false;  // of `round`: MeetNoMore is out

  uint64_t beat_seq = 0;
  std::map<uint64_t, absl::Time> beats_unanswered;  // seq -> send time; bounded by lease / interval
  absl::Time next_beat = absl::InfiniteFuture();
  absl::Time lease_until = absl::InfinitePast();  // nothing may run after it; unused in_process
  // The lease ended while this process stood still: so long do the workers (A4); else the past.
  absl::Time still_until = absl::InfinitePast();
  bool paused = false;
  NodeUse use;  // as seen last
  int32_t stop_asked = 0;
  std::string stop_told;  // by the same
  bool kill_asked = false;
  int32_t leaves = 0;                 // signal by which this node was told to leave the job
  RoundId restart_asked;              // a round that the user wants another one to follow
  std::map<int32_t, uint32_t> heard;  // signals of the scheduler, how often
  std::string note;
  std::optional<JobOutcome> outcome;  // kEnd was received, or nothing is left to wait for
  bool ended_locally = false;         // the outcome is this agent's own, not the master's
  bool showing = false;               // ShowRest is out; the master still hears of us meanwhile
  bool finished = false;

  bool begun = false;          // the first event was seen
  bool store_opening = false;  // OpenStore is out, StorePortReady is awaited
  bool cleared = false;        // RoundCleared came for `round`
  uint32_t exits_sent = 0;     // of `exits`; what lies between acked and sent is under way
  int32_t stop_signal = 0;     // last signal that went to the workers to stop them
  absl::Time link_lost_at = absl::InfiniteFuture();  // not admitted since then
  std::string link_lost_why;
  bool link_told = false;  // the master has said it
  // Sending of the first Join on this link; InfinitePast once its Admitted has granted a lease.
  absl::Time first_join = absl::InfiniteFuture();
  absl::Time next_join = absl::InfiniteFuture();
  absl::Time answer_by = absl::InfiniteFuture();  // admitted, but unanswered until then: join anew
  absl::Time timer_at = absl::InfiniteFuture();   // what SetTimer said last
  absl::Time stepped_at = absl::InfinitePast();   // the last step
  // The implementation may add fields it needs; every field has a comment that says what it means.
};

}  // namespace muster
