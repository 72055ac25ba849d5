// Inside the simulator: the state of the world. One class; its files are run (world.cc), the wires
// (network.cc), a node with agent, shepherd and workers (node.cc), the master's host (master.cc),
// faults (faults.cc) and what is checked (checks.cc).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/core/agent_machine.h"
#include "agent/core/lease_watch.h"
#include "proto/base/rng.h"
#include "rendezvous/core/invariants.h"
#include "rendezvous/core/round_machine.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/sim.h"

namespace muster::sim {

inline absl::Time ToTime(Nanos at) { return absl::UnixEpoch() + absl::Nanoseconds(at); }
inline Nanos ToNanos(absl::Time at) { return absl::ToInt64Nanoseconds(at - absl::UnixEpoch()); }

struct Worker {
  bool running = false;
  bool doomed = false;  // its end is decided: what happens to peers changes nothing
  bool killed = false;  // SIGKILL: no other signal changes anything
  bool ignores_term = false;
  bool stopped = false;       // SIGSTOP
  bool held = false;          // it had a planned end when it was stopped
  bool term_pending = false;  // came while stopped
  int32_t pid = 0;
  uint64_t turn = 0;  // number of its next end; an older end is void
  RoundId began;
  Nanos started = 0;
  Nanos ends = 0;   // planned; 0 = never by itself
  WorkerExit exit;  // planned
  uint32_t signals = 0;
};

// How the last life of a rank ended: of the latest round, and there of the latest process. One that
// was frozen may begin, and end, after its successor.
struct LastEnd {
  RoundId began;
  WorkerExit exit;
};

// One agent process: a life.
struct Process {
  uint32_t key = 0;          // place in the host list
  uint32_t attempt = 0;      // of the starter, that started it
  Nanos waits_until = 0;     // for the end of the shepherd that was here before
  Nanos shepherd_until = 0;  // of one that crashed: its workers end then
  AgentConfig config;
  AgentState state;
  bool alive = false;
  bool finished = false;
  Nanos offset = 0;             // its clock less the virtual one
  Nanos frozen_until = 0;       // all of the node, or the I/O process only
  bool frozen_shepherd = true;  // whole node
  Nanos thawed = -1;            // when it thawed last
  uint64_t connection = 0;      // 0 = none
  bool cut_out = false;         // what it sends is lost
  bool cut_in = false;
  uint64_t timer = 0;  // number of its present timer
  Nanos timer_at = -1;
  uint64_t lease_timer = 0;
  Nanos lease_until = -1;     // its clock; -1 = none
  LeaseWatch lease_watch;     // its shepherd's
  Nanos lease_timer_at = -1;  // when its present one is due; -1 = there is none
  std::set<uint32_t> stood;   // workers that its shepherd has stopped, as they have no lease
  Nanos stood_since = -1;
  Nanos resumed = -1;        // when a pause, in which no lease counts, ended last
  Nanos heard = -1;          // a message of this life reached the master last
  uint16_t port = 0;         // opened last
  RoundId round;             // workers are of it
  RoundId chain;             // the first of those that keep workers up to `round`
  std::set<NodeRank> seeks;  // of it, not yet answered
  uint32_t running = 0;
  std::vector<Worker> workers;
  bool saves = false;        // what was told to stop with its workers, which have all ended
  bool saves_later = false;  // ... but as it has no lease, its shepherd has stopped it
};

struct Connection {
  uint32_t process = 0;
  bool open = true;    // at the master
  uint32_t epoch = 0;  // of that master
  NodeId node;         // 0 until admitted
  Incarnation incarnation;
};

enum class FaultKind : uint8_t {
  kCut,
  kUncut,
  kClose,
  kCrash,
  kFreeze,
  kZombie,
  kClockJump,
  kKillWorker,
  kFreezeMaster,
  kFreezeAll,    // the whole job: master, agents, workers
  kCrashMaster,  // where there is a journal
  kRack,         // one of the others, on every node of a rack at the same moment
};
struct Fault {
  FaultKind kind;
  uint32_t process = 0;  // index among the living, as far as there are
  Nanos length = 0;
  uint32_t variant = 0;
};

struct Wire {  // of the whole network, while faults last
  double loss = 0;
  double twice = 0;
  double late = 0;
  Nanos late_max = 0;
};

class World {
 public:
  explicit World(const Options& options);
  Result Run();

 private:
  // --- world.cc ---
  void MakeJob();
  void MakeRestartRules();
  void AddProcess(uint32_t key, Nanos at, uint32_t attempt = 0);
  bool MayStart(const Event& event);
  void TakeHold(uint32_t who);
  bool LifeAt(uint32_t key) const;
  void TellStarter(const Process& p, bool killed, Nanos delay);
  uint32_t WorkersOf(uint32_t key) const;
  void DealRanks();
  void Dispatch(const Event& event);
  bool Defer(const Event& event);
  void Trace(const Event& event) const;
  void Fail(const std::string& what);
  void FailIf(const absl::Status& status);
  bool Chance(double p) { return p > 0 && rng_.Unit() < p; }
  Nanos Between(Nanos low, Nanos high) {
    return low + static_cast<Nanos>(rng_.Below(static_cast<uint64_t>(high - low + 1)));
  }
  void Post(Nanos delay, Kind kind, uint32_t who, uint32_t slot = 0, uint64_t number = 0) {
    queue_.Push({now_ + delay, 0, number, who, slot, kind});
  }
  void Mix(uint64_t value) { digest_ = (digest_ ^ value) * 0x100000001B3u + (digest_ >> 29); }

  // --- network.cc ---
  void Connect(uint32_t who);
  void LinkIsUp(const Event& event);
  void LinkIsDown(const Event& event);
  void Close(uint64_t connection, bool agent_sees, bool master_sees);
  Nanos Delay();
  int Copies();
  void SendToMaster(uint32_t who, AgentMessage message);
  void SendToAgent(uint64_t connection, MasterMessage message);
  void ArrivedAtMaster(const Event& event);
  void ArrivedAtAgent(const Event& event);

  // --- node.cc ---
  void StepAgent(uint32_t who, const AgentEvent& event);
  void Do(uint32_t who, const struct SendToMaster& effect);
  void Do(uint32_t, const Drill&) {}
  void Do(uint32_t who, const OpenStore& effect);
  void Do(uint32_t who, const SpawnRound& effect);
  void Do(uint32_t who, const KeepRound& effect);
  void Do(uint32_t who, const SignalRound& effect);
  void Do(uint32_t who, const ReleaseHeld& effect);
  void Do(uint32_t who, const KillRound& effect);
  void Do(uint32_t who, const AwaitGroups& effect);
  void Do(uint32_t who, const CloseRound& effect);
  void Do(uint32_t who, const EndDrain& effect);
  void Do(uint32_t who, const PeerFound& effect);
  void Do(uint32_t who, const PeerGone& effect);
  void Do(uint32_t who, const MeetNoMore& effect);
  void Do(uint32_t who, const SetLease& effect);
  void Do(uint32_t who, const SetTimer& effect);
  void Do(uint32_t who, const ShowWaiting&) { Mix(who); }
  void Do(uint32_t who, const ShowNotice&) { Mix(who); }
  void Do(uint32_t who, const ShowRest& effect);
  void Do(uint32_t who, const Finish& effect);
  void ArmAgentTimers(uint32_t who);
  void PlanSeeks(uint32_t who, const Assignment& assignment);
  void Seek(const Event& event);
  void GroupsEnd(const Event& event);
  void Plan(uint32_t who, uint32_t local);
  void EndIn(uint32_t who, uint32_t local, Nanos delay, WorkerExit exit);
  void Hang(uint32_t who, uint32_t local);
  void SignalWorker(uint32_t who, uint32_t local, int32_t signo);
  void WorkerEnds(const Event& event);
  void ArmLease(uint32_t who);
  void LookAtLease(const Event& event);
  void LeaseEnds(uint32_t who);
  void StandStill(uint32_t who);
  void GoOn(uint32_t who);
  void PeersNotice(RoundId chain, Rank who_died);
  void Crash(uint32_t who, bool silently);
  Nanos ClockOf(const Process& p) const { return now_ + p.offset; }

  // --- master.cc ---
  void StepMaster(const RoundEvent& event);
  void DoAll(const std::vector<RoundEffect>& effects);
  void Persisted(uint64_t epoch);
  void CrashMaster(Nanos length);
  void TakeOver();
  void Do(const Persist&) {}  // see DoAll
  void Do(const Reply& effect);
  void Do(const Send& effect);
  void Do(const Tell& effect);
  void Do(const ArmTimer& effect);
  void Do(const DropLink& effect);
  void Do(const RoundStarted& effect);
  void Do(const WorkersStarted& effect);
  void Do(const NodeMissing& effect);
  void Do(const SignalHeard& effect);
  void Do(const OrderAnswered&) {}  // nobody asks for drills here
  void Do(const StartAgain& effect);
  void StartFails(const Event& event);
  void Do(const JobEnded& effect);
  void MasterClosed(uint64_t connection);
  void Ask(Nanos at, uint64_t request);
  void MasterAsked();
  uint64_t ConnectionOf(NodeId node) const {
    return node.value < connection_of_.size() ? connection_of_[node.value] : 0;
  }

  // --- faults.cc ---
  void WriteScript();
  void WriteMasterScript();
  void Inject(Fault fault);
  void InjectRack(const Fault& fault);
  void StandAllStill(Nanos at, Nanos length);
  void FreezeAll(Nanos length);
  void FreezeMaster(Nanos until);
  void Heal();
  uint32_t Victim(uint32_t index) const;

  // --- checks.cc ---
  void CheckAlone(uint32_t who);
  void CheckProgress();
  void CheckSpawn(uint32_t who, const Assignment& assignment);
  void CheckKeep(uint32_t who, const KeepRound& effect);
  void CheckEndedWell(RoundId chain, uint32_t rank);
  void CheckOneLife(uint32_t who, Rank rank);
  static bool Runs(const Process& process, Rank rank);
  void CheckSurvivors(uint32_t who);
  void CheckPeer(RoundId round, const PeerNode& peer);
  void CheckGone(RoundId round, Rank rank);
  void CheckLease(uint32_t who);
  void CheckOrder();
  void CheckTakenOver();
  absl::Time HeardOf(NodeId node) const;
  void CheckOldLife(NodeId node, Incarnation incarnation, absl::Time heard_before);
  void CheckFirstCause();
  void CheckBlame();
  void CheckFailuresNamed();
  bool HasLeft(const std::string& hostname) const;
  void CheckBudgetUsedUp();
  void CheckGivenUp();
  void CheckEnd();
  void CheckFinish(uint32_t who, const JobOutcome& outcome);

  const Options options_;
  SplitMix64 rng_;
  EventQueue queue_;
  Nanos now_ = 0;
  uint64_t events_ = 0;
  uint64_t digest_ = 0xCBF29CE484222325u;
  absl::Status status_;

  RoundConfig config_;
  RoundState master_;
  std::unique_ptr<InvariantChecker> checker_;
  bool serving_ = true;                  // the master can be reached
  bool stays_ = true;                    // and can be after the job's end (a daemon)
  Nanos master_frozen_ = 0;              // until
  Nanos master_froze_ = 0;               // its last step before that
  Nanos master_stood_ = 0;               // at most, at a time
  Nanos master_down_ = 0;                // until
  std::multimap<Nanos, uint64_t> asks_;  // what people are to ask of it, and when
  std::vector<JournalRecord> journal_;   // on the disk
  std::deque<JournalRecord> unwritten_;  // each has its Persist in held_
  std::deque<RoundEffect> held_;         // from the first Persist that is not durable on
  Nanos written_at_ = 0;                 // the last of unwritten_
  uint64_t master_timer_ = 0;            // number of the present one
  uint64_t master_steps_ = 0;
  uint32_t rounds_ = 0;

  std::vector<Process> processes_;
  std::vector<std::vector<uint32_t>> lives_;              // by key: its processes
  std::map<uint32_t, std::vector<uint32_t>> started_on_;  // processes that may run a rank
  std::vector<Connection> connections_;                   // by number - 1
  std::vector<uint64_t> connection_of_;  // by node id: the last one admitted as it; 0 = none
  Slots<AgentMessage> to_master_;
  Slots<MasterMessage> to_agent_;
  Slots<std::pair<RoundId, WorkerExit>> exits_seen_;
  int32_t pids_ = 1000;
  uint64_t turns_ = 0;

  // The script.
  std::vector<Fault> faults_;
  uint32_t rack_ = 1;  // nodes of one, neighbours in the list
  Wire wire_;
  bool healed_ = false;
  uint32_t injected_ = 0;
  uint32_t racks_failed_ = 0;
  double fail_chance_ = 0;               // that one worker of a round fails by itself
  double start_fail_chance_ = 0;         // that an agent cannot be started again
  std::map<uint32_t, Nanos> off_until_;  // machines, by key: one that was off at the start boots
  bool together_ = false;                // the workers of a round end at about the same time
  uint32_t workers_max_ = 2;
  uint32_t spares_ = 0;                       // the last nodes of the list
  std::vector<std::vector<uint32_t>> ranks_;  // by key, of a job with a rank file; else empty
  int32_t user_stop_ = 0;                     // what the user sent, 0 = not yet
  std::map<RoundId, uint32_t> signals_asked_;
  Nanos over_ = -1;      // time of JobEnded
  Nanos runs_last_ = 0;  // a round ran then, or nothing could
  uint32_t starts_failed_ = 0;
  uint32_t grown_ = 0;  // rounds that were stopped for a newcomer
  RoundId grown_last_;
  uint32_t came_back_ = 0;  // starts that the master asked for

  // What really happened, for the checks.
  std::map<RoundId, WorkerExit> first_failure_;               // by itself
  std::map<std::pair<RoundId, uint32_t>, LastEnd> ends_;      // chain, rank
  std::set<std::pair<RoundId, uint32_t>> lost_;               // chain, rank: with its node
  std::map<std::pair<RoundId, uint32_t>, uint32_t> spawned_;  // round, rank -> process
  std::map<std::pair<RoundId, NodeRank>, PeerNode> peers_;    // as it is there, or was told
};

}  // namespace muster::sim
