// A node: its agent, the shepherd beside it, and scripted workers.
#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "tests/sim/world.h"

namespace muster::sim {
namespace {

WorkerExit Signaled(int32_t signo) {
  WorkerExit exit;
  exit.kind = ExitKind::kSignaled;
  exit.code = signo;
  return exit;
}

WorkerExit Exited(int32_t code) {
  WorkerExit exit;
  exit.code = code;
  return exit;
}

}  // namespace

void World::StepAgent(uint32_t who, const AgentEvent& event) {
  if (!processes_[who].alive || processes_[who].finished) {
    return;
  }
  CheckLease(who);
  const absl::Time clock = ToTime(ClockOf(processes_[who]));
  const std::vector<AgentEffect> effects =
      Step(processes_[who].config, processes_[who].state, event, clock);
  for (const AgentEffect& effect : effects) {
    std::visit([this, who](const auto& one) { Do(who, one); }, effect);
  }
}

void World::Do(uint32_t who, const struct SendToMaster& effect) {
  SendToMaster(who, effect.message);
}

void World::Do(uint32_t who, const OpenStore&) {
  const Nanos delay = !healed_ && Chance(0.05) ? Between(0, 2 * kSecond) : Between(1000, kMilli);
  const bool fails = options_.faults && !healed_ && Chance(0.005);
  injected_ += fails ? 1 : 0;
  Post(delay, fails ? Kind::kNoStorePort : Kind::kStorePort, who, 0, 1024 + rng_.Below(60000));
}

void World::Do(uint32_t who, const SpawnRound& effect) {
  Process& p = processes_[who];
  CheckSpawn(who, effect.assignment);
  const Assignment& a = effect.assignment;
  p.round = a.round;
  p.chain = a.keeps_from.IsNone() ? a.round : a.keeps_from;
  p.workers.assign(a.workers, Worker());
  p.stood.clear();
  PlanSeeks(who, a);
  for (uint32_t local = 0; local < a.workers; ++local) {
    if (!a.HasEndedWell(LocalRank{local})) {
      Plan(who, local);
    }
  }
}

void World::Do(uint32_t who, const KeepRound& effect) {
  Process& p = processes_[who];
  CheckKeep(who, effect);
  p.round = effect.assignment.round;
  PlanSeeks(who, effect.assignment);
  for (const LocalRank local : effect.starts) {
    Plan(who, local.value);
  }
}

// Some nodes' workers need others soon, at once or later.
void World::PlanSeeks(uint32_t who, const Assignment& assignment) {
  Process& p = processes_[who];
  p.seeks.clear();
  const uint32_t me = assignment.node_rank.value;
  CheckPeer(assignment.round, {{me}, p.config.join.address, p.port});
  for (uint64_t i = assignment.nodes == 1 ? 0 : rng_.Below(4); i > 0; --i) {
    const auto other = static_cast<uint32_t>(rng_.Below(assignment.nodes));
    if (other != me) {
      Post(Between(0, Chance(0.5) ? kMilli : 5 * kSecond), Kind::kSeek, who, other,
           assignment.round.n);
    }
  }
}

void World::Seek(const Event& event) {
  Process& p = processes_[event.who];
  const bool running = p.alive && p.running > 0 && p.state.phase == AgentPhase::kRunning;
  if (running && p.round.n == event.number) {
    p.seeks.insert(NodeRank{event.slot});
    StepAgent(event.who, PeerSought{p.round, NodeRank{event.slot}});
    const uint32_t rank = (event.slot * 7 + event.who) % p.state.assignment->world_size;
    StepAgent(event.who, PeersAwaited{p.round, {Rank{rank}}});
  }
}

void World::Do(uint32_t who, const PeerFound& effect) {
  Process& p = processes_[who];
  if (p.seeks.erase(effect.peer.node_rank) == 0) {
    Fail(absl::StrCat(p.config.join.hostname, " is told node rank ", effect.peer.node_rank.value,
                      ", which it does not seek"));
  }
  CheckPeer(p.round, effect.peer);
}

void World::Do(uint32_t who, const PeerGone& effect) {
  CheckGone(processes_[who].round, effect.rank);
}

void World::Do(uint32_t who, const MeetNoMore& effect) {
  CheckGone(processes_[who].round, effect.ended_well);
}

// How a worker would end if nobody touched it.
void World::Plan(uint32_t who, uint32_t local) {
  Process& p = processes_[who];
  Worker& w = p.workers[local];
  CheckOneLife(who, p.state.assignment->RankOf(LocalRank{local}));
  w = Worker();
  w.running = true;
  ++p.running;
  w.began = p.state.assignment->round;
  w.started = now_;
  w.pid = ++pids_;
  w.ignores_term = options_.faults && Chance(0.05);
  const Nanos run = absl::ToInt64Nanoseconds(options_.run);
  Nanos length = std::max<Nanos>(run - now_, kSecond);
  WorkerExit exit = Exited(0);
  if (options_.faults) {
    length = together_ ? run / 2 + Between(0, 2 * kSecond) : Between(kSecond, run / 4);
    const double each = fail_chance_ / static_cast<double>(options_.agents * workers_max_);
    if (!healed_ && Chance(2 * each)) {
      length = Between(0, length);
      exit = Chance(0.5) ? Signaled(SIGSEGV) : Exited(1 + static_cast<int32_t>(rng_.Below(100)));
    }
  }
  EndIn(who, local, length, std::move(exit));
}

void World::EndIn(uint32_t who, uint32_t local, Nanos delay, WorkerExit exit) {
  Worker& w = processes_[who].workers[local];
  exit.local_rank = LocalRank{local};
  exit.rank = processes_[who].state.assignment->RankOf(LocalRank{local});
  exit.pid = w.pid;
  exit.ran_for = absl::Nanoseconds(now_ + delay - w.started);
  w.exit = std::move(exit);
  w.ends = now_ + delay;
  Post(delay, Kind::kWorkerEnd, who, local, w.turn = ++turns_);
}

void World::Hang(uint32_t who, uint32_t local) {
  Worker& w = processes_[who].workers[local];
  w.turn = ++turns_;
  w.ends = 0;
}

void World::WorkerEnds(const Event& event) {
  Process& p = processes_[event.who];
  if (!p.alive || event.slot >= p.workers.size()) {
    return;
  }
  Worker& w = p.workers[event.slot];
  if (!w.running || w.turn != event.number) {
    return;
  }
  CheckLease(event.who);
  if (w.exit.Ok() && !w.doomed &&
      !p.seeks.empty()) {  // it waits for its peers, and then has its work to do
    return EndIn(event.who, event.slot, 200 * kMilli, w.exit);
  }
  w.running = false;
  --p.running;
  p.stood.erase(event.slot);
  if (LastEnd& last = ends_[{p.chain, w.exit.rank.value}];
      std::tie(w.began, w.exit.pid) > std::tie(last.began, last.exit.pid)) {
    last = {w.began, w.exit};
  }
  Post(Between(1000, kMilli), Kind::kExitSeen, event.who, exits_seen_.Put({p.round, w.exit}));
  const bool asked = p.state.stop_sent || p.state.killed;
  if (!w.exit.Ok() && !asked && !w.doomed) {
    first_failure_.emplace(p.round, w.exit);
    PeersNotice(p.chain, w.exit.rank);
  }
}

// Peers of a worker that died: some fail as well, some wait for it for ever, some do not care.
// Where the job goes on, or waits for a replacement, the SDK ends their waiting.
void World::PeersNotice(RoundId chain, Rank who_died) {
  if (!options_.faults) {
    return;
  }
  for (uint32_t who = 0; who < processes_.size(); ++who) {
    if (!processes_[who].alive || processes_[who].chain != chain) {
      continue;
    }
    for (uint32_t local = 0; local < processes_[who].workers.size(); ++local) {
      Worker& w = processes_[who].workers[local];
      if (!w.running || w.doomed || w.stopped) {
        continue;
      }
      if (processes_[who].state.assignment->RankOf(LocalRank{local}) == who_died) {
        continue;  // its successor
      }
      const uint64_t choice = rng_.Below(10);
      if (choice < 3) {
        w.doomed = true;  // its own end alarms nobody again
        WorkerExit exit = Exited(1);
        exit.because_of = who_died;
        EndIn(who, local, Between(0, 500 * kMilli), std::move(exit));
      } else if (choice < 8 && config_.on_failure == OnFailure::kStop &&
                 config_.restart != RestartMode::kOne) {
        Hang(who, local);
      }
    }
  }
}

void World::Do(uint32_t who, const SignalRound& effect) {
  if (effect.signo == SIGTERM || effect.signo == SIGINT) {
    CheckSurvivors(who);
  }
  for (uint32_t local = 0; local < processes_[who].workers.size(); ++local) {
    if (processes_[who].workers[local].running && effect.round == processes_[who].round) {
      SignalWorker(who, local, effect.signo);
    }
  }
}

void World::SignalWorker(uint32_t who, uint32_t local, int32_t signo) {
  Worker& w = processes_[who].workers[local];
  if (w.killed) {
    return;
  }
  if (signo == SIGSTOP) {
    w.stopped = true;  // its planned end waits until SIGCONT
    w.held = w.ends != 0;
    Hang(who, local);
  } else if (signo == SIGCONT) {
    if (!w.stopped) {
      return;
    }
    w.stopped = false;
    processes_[who].thawed = now_;
    if (w.term_pending && !w.ignores_term) {
      SignalWorker(who, local, SIGTERM);
    } else if (w.held) {
      EndIn(who, local, Between(0, 5 * kSecond), w.exit);
    }
  } else if (signo == SIGUSR1) {
    if (++w.signals > signals_asked_[processes_[who].chain]) {
      Fail("a worker got a signal more often than it was asked for");
    }
  } else if (w.stopped) {
    w.term_pending = true;
  } else if (!w.ignores_term) {
    w.doomed = true;
    EndIn(who, local, Between(0, 300 * kMilli), Signaled(signo));
  }
}

void World::Do(uint32_t, const ReleaseHeld&) { CHECK(false); }  // no agent here holds any

void World::Do(uint32_t who, const KillRound& effect) {
  CheckSurvivors(who);
  processes_[who].saves = false;
  Nanos last = 0;
  for (uint32_t local = 0; local < processes_[who].workers.size(); ++local) {
    Worker& w = processes_[who].workers[local];
    w.doomed = w.killed = true;
    const Nanos delay = Between(0, 5 * kMilli);
    last = std::max(last, delay);
    if (w.running && (w.ends == 0 || w.ends > now_ + delay)) {
      EndIn(who, local, delay, Signaled(SIGKILL));
      w.stopped = false;
    }
  }
  Post(last + 2 * kMilli, Kind::kCleared, who, 0, effect.round.Token());
}

// A shell has died of the signal; what it ran saves, and now and then never ends.
void World::Do(uint32_t who, const AwaitGroups& effect) {
  processes_[who].saves = true;
  processes_[who].saves_later = processes_[who].lease_watch.stands_still();
  if (!options_.faults || !Chance(0.1)) {
    Post(Between(1000, Chance(0.5) ? kMilli : 8 * kSecond), Kind::kGroupsEnded, who, 0,
         effect.round.Token());
  }
}

void World::Do(uint32_t who, const CloseRound& effect) {
  if (processes_[who].saves) {
    Fail(absl::StrCat(processes_[who].config.join.hostname, " gives no time to what saves"));
  }
  // Now and then something that a worker left has its output open.
  const bool drains = Between(0, 15) == 0;
  const Nanos drain = drains ? Between(0, absl::ToInt64Nanoseconds(effect.drain)) : 0;
  Post(drain + Between(1000, kMilli), Kind::kCleared, who, 0, effect.round.Token());
}

void World::Do(uint32_t who, const EndDrain& effect) {
  Post(Between(1000, kMilli), Kind::kCleared, who, 0, effect.round.Token());
}

void World::Do(uint32_t who, const SetLease& effect) {
  Process& p = processes_[who];
  const bool counts = effect.until != absl::InfiniteFuture();
  const bool stood_still = p.lease_watch.stands_still();
  p.resumed = counts && p.lease_until < 0 && !stood_still ? now_ : p.resumed;
  p.lease_until = counts ? ToNanos(effect.until) : -1;
  if (p.lease_watch.Set(effect.until, ToTime(ClockOf(p))) && stood_still) {
    GoOn(who);
  }
  ArmLease(who);
}

// The shepherd looks when it is due by what it knew: a later end moves its timer then.
void World::ArmLease(uint32_t who) {
  Process& p = processes_[who];
  const absl::Time next = p.lease_watch.next();
  if (next == absl::InfiniteFuture()) {
    return;
  }
  const Nanos at = std::max(ToNanos(next) - p.offset, now_);
  if (p.lease_timer_at < 0 || at < p.lease_timer_at) {
    p.lease_timer_at = at;
    queue_.Push({at, 0, ++p.lease_timer, who, 0, Kind::kLeaseEnd});
  }
}

void World::ArmAgentTimers(uint32_t who) {
  Process& p = processes_[who];
  if (p.timer_at >= 0) {
    queue_.Push({std::max(p.timer_at - p.offset, now_), 0, ++p.timer, who, 0, Kind::kAgentTimer});
  }
  ArmLease(who);
}

void World::Do(uint32_t who, const SetTimer& effect) {
  Process& p = processes_[who];
  ++p.timer;
  p.timer_at = effect.at == absl::InfiniteFuture() ? -1 : ToNanos(effect.at);
  if (p.timer_at >= 0) {
    queue_.Push({std::max(p.timer_at - p.offset, now_), 0, p.timer, who, 0, Kind::kAgentTimer});
  }
}

void World::LookAtLease(const Event& event) {
  Process& p = processes_[event.who];
  if (!p.alive || p.finished || event.number != p.lease_timer) {
    return;
  }
  p.lease_timer_at = -1;
  const LeaseWatch::Due due = p.lease_watch.Look(ToTime(ClockOf(p)));
  if (due == LeaseWatch::Due::kStandStill) {
    StandStill(event.who);
  } else if (due == LeaseWatch::Due::kKill) {
    LeaseEnds(event.who);
  }
  ArmLease(event.who);
}

void World::LeaseEnds(uint32_t who) {
  Process& p = processes_[who];
  p.lease_until = -1;
  CheckLease(who);
  p.saves = false;
  for (uint32_t local = 0; local < p.workers.size(); ++local) {
    if (p.workers[local].running) {
      p.workers[local].doomed = p.workers[local].killed = true;
      p.workers[local].stopped = false;
      EndIn(who, local, 0, Signaled(SIGKILL));
    }
  }
  Post(2 * kMilli, Kind::kLeaseEnded, who);  // after the exits
}

// The lease ended while the node stood still.
void World::StandStill(uint32_t who) {
  Process& p = processes_[who];
  p.lease_until = -1;
  p.stood_since = now_;
  p.saves_later = p.saves;
  for (uint32_t local = 0; local < p.workers.size(); ++local) {
    if (p.workers[local].running && !p.workers[local].stopped) {
      p.stood.insert(local);
      SignalWorker(who, local, SIGSTOP);
    }
  }
}

// With a lease: then nobody else has these ranks.
void World::GoOn(uint32_t who) {
  const std::set<uint32_t> stood = processes_[who].stood;
  processes_[who].saves_later = false;
  for (const uint32_t local : stood) {
    const Worker& w = processes_[who].workers[local];
    if (w.running && !w.killed) {
      CheckOneLife(who, processes_[who].state.assignment->RankOf(LocalRank{local}));
      SignalWorker(who, local, SIGCONT);
      processes_[who].stood.erase(local);
    }
  }
}

// The shepherd that was here before is gone, or the new agent goes on waiting for it, and at last
// gives up.
bool World::MayStart(const Event& event) {
  const Process& mine = processes_[event.who];
  bool held = false;
  for (const uint32_t who : lives_[mine.key]) {
    const Process& p = processes_[who];
    const bool lives = mine.attempt != 0 && p.alive && !p.finished;
    held |= who < event.who && (lives || p.shepherd_until > now_);
  }
  if (!held) {
    return true;
  }
  if (now_ < mine.waits_until || mine.attempt == 0) {
    Event later = event;
    later.at = now_ + 20 * kMilli;
    queue_.Push(later);
  } else {
    ++starts_failed_;
    Post(kMilli, Kind::kStartFailed, mine.key, 0, mine.attempt);
  }
  return false;
}

bool World::LifeAt(uint32_t key) const {
  return std::any_of(lives_[key].begin(), lives_[key].end(), [this](uint32_t who) {
    return processes_[who].alive && !processes_[who].finished;
  });
}

// It is on the machine of the life before; but where that one lives, they are two machines.
void World::TakeHold(uint32_t who) {
  Process& mine = processes_[who];
  const bool another = LifeAt(mine.key);
  mine.config.join.hold = {
      another ? absl::StrCat("other machine/", who) : absl::StrCat("machine/", mine.key),
      static_cast<uint64_t>(now_)};
}

// Where one starter has all agents, it tells the master that one has ended.
void World::TellStarter(const Process& p, bool killed, Nanos delay) {
  if (config_.starts_again && !master_.report.ended) {
    Post(delay, Kind::kStartFailed, p.key, killed ? 1 : 0, p.attempt);
  }
}

// Shepherd and I/O process watch each other: with the agent its workers end.
void World::Crash(uint32_t who, bool silently) {
  Process& p = processes_[who];
  p.alive = false;
  p.shepherd_until = now_ + (Chance(0.1) ? Between(0, 3 * kSecond) : Between(0, 50 * kMilli));
  TellStarter(p, /*killed=*/true, silently ? 15 * kSecond : 500 * kMilli);
  Close(p.connection, /*agent_sees=*/false, /*master_sees=*/!silently);
  p.connection = 0;
  p.running = 0;
  p.saves = false;
  const RoundId chain = p.chain;
  p.workers.clear();
  if (!chain.IsNone() && p.state.assignment.has_value()) {
    PeersNotice(chain, p.state.assignment->RankOf(LocalRank{0}));
  }
}

// A reader may take longer than a lease.
void World::Do(uint32_t who, const ShowRest&) {
  const bool slow = options_.faults && !healed_ && Chance(0.1);
  Post(slow ? Between(0, 20 * kSecond) : Between(1000, kMilli), Kind::kRestShown, who);
}

void World::Do(uint32_t who, const Finish& effect) {
  Process& p = processes_[who];
  p.finished = true;
  CheckFinish(who, effect.outcome);
  Close(p.connection, /*agent_sees=*/false, /*master_sees=*/true);
  p.connection = 0;
  const bool another = LifeAt(p.key);  // it was refused because its place is taken
  TellStarter(p, /*killed=*/false, 500 * kMilli);
  const bool over = over_ >= 0 || master_.report.ended || user_stop_ != 0;
  if (!over && !config_.starts_again && options_.faults && !another) {
    AddProcess(p.key, now_ + Between(kSecond, 5 * kSecond));  // its starter tries again
  }
}

}  // namespace muster::sim
