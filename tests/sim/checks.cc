// What must hold across master, agents and workers (round_machine.h I1-I13 are checked by
// invariants.h, these need to see everybody).
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/cause.h"
#include "tests/sim/world.h"

namespace muster::sim {
namespace {

constexpr Nanos kKillTime = 10 * kMilli;  // from the decision to kill to the end of a process
// Without a round, once healed: a freeze that lasts, a lease, a stop and a last call.
constexpr Nanos kRoundWithin = 60 * kSecond;

// Only --max-restarts has a say in what follows the loss of a node.
bool NoRuleForbids(const RoundConfig& config) {
  return config.restart == RestartMode::kAll && !config.rules.of_node.has_value() &&
         config.rules.on_exit.empty();
}

}  // namespace

// A1, A2, A4, I1: one round at a time, each once, with a lease, no rank twice.
void World::CheckSpawn(uint32_t who, const Assignment& assignment) {
  const Process& p = processes_[who];
  CheckAlone(who);
  const std::string round = assignment.round.ToString();
  if (p.saves) {
    Fail(absl::StrCat("A1: ", p.config.join.hostname, " starts round ", round, " while one saves"));
  }
  if (p.running != 0) {
    Fail(absl::StrCat("A1: ", p.config.join.hostname, " starts round ", round, " while ", p.running,
                      " workers of round ", p.round.ToString(), " run"));
  }
  if (assignment.round <= p.round) {
    Fail(absl::StrCat("A2: ", p.config.join.hostname, " starts round ", round, " after ",
                      p.round.ToString()));
  }
  if (!p.state.paused && p.lease_until <= ClockOf(p)) {
    Fail(absl::StrCat("A4: ", p.config.join.hostname, " starts round ", round, " without a lease"));
  }
  for (uint32_t i = 0; i < assignment.workers; ++i) {
    const uint32_t rank = assignment.RankOf(LocalRank{i}).value;
    if (assignment.HasEndedWell(LocalRank{i})) {
      CheckEndedWell(assignment.keeps_from, rank);
    } else if (!spawned_.emplace(std::make_pair(assignment.round, rank), who).second) {
      Fail(absl::StrCat("I1: rank ", rank, " of round ", round, " was started twice"));
    }
  }
}

// A5: nothing runs beside what a shepherd that was on this machine before has left.
void World::CheckAlone(uint32_t who) {
  const Process& mine = processes_[who];
  for (const uint32_t other : lives_[mine.key]) {
    const Process& before = processes_[other];
    const bool is_here = before.config.join.hold.id == mine.config.join.hold.id;
    if (other < who && is_here && before.shepherd_until > now_) {
      Fail(absl::StrCat("A5: ", mine.config.join.hostname,
                        " starts workers beside those of the shepherd before it"));
    }
  }
}

void World::CheckEndedWell(RoundId chain, uint32_t rank) {
  const auto end = ends_.find({chain, rank});
  if (end == ends_.end() || !end->second.exit.Ok()) {
    Fail(absl::StrCat("A3: rank ", rank, " is said to have ended well, and has not"));
  }
}

// A1, A2, A4: the round held goes on, and only workers that failed are started anew, with a lease.
void World::CheckKeep(uint32_t who, const KeepRound& effect) {
  const Process& p = processes_[who];
  const Assignment& a = effect.assignment;
  const std::string round = a.round.ToString();
  if (p.chain != a.keeps_from || a.round <= p.round) {
    Fail(absl::StrCat("A2: ", p.config.join.hostname, " keeps workers of round ",
                      p.round.ToString(), " in round ", round));
  }
  if (!p.state.paused && p.lease_until <= ClockOf(p)) {
    Fail(absl::StrCat("A4: ", p.config.join.hostname, " keeps round ", round, " without a lease"));
  }
  for (const LocalRank local : effect.starts) {
    const uint32_t rank = a.RankOf(local).value;
    const auto end = ends_.find({p.chain, rank});
    if (p.workers[local.value].running || end == ends_.end() || end->second.exit.Ok()) {
      Fail(absl::StrCat("A1: rank ", rank, " is started anew in round ", round,
                        ", and has not failed"));
    }
    if (!spawned_.emplace(std::make_pair(a.round, rank), who).second) {
      Fail(absl::StrCat("I1: rank ", rank, " of round ", round, " was started twice"));
    }
  }
}

// Once nothing goes wrong any more, it does not take long until a round runs.
void World::CheckProgress() {
  const bool runs = master_.phase == JobPhase::kRunning || master_.phase == JobPhase::kEnded;
  if (runs || master_.paused || !healed_ || !options_.faults) {
    runs_last_ = now_;
  } else if (now_ > runs_last_ + kRoundWithin) {
    Fail(absl::StrCat("progress: no round runs ", (now_ - runs_last_) / kSecond,
                      " s after everything healed; phase ", static_cast<int>(master_.phase)));
  }
}

// No two live processes hold one rank, frozen ones aside, and paused ones, which stand still: with
// a journal whatever their rounds and their nodes, as nothing there is replaced before its lease
// has ended or its end is shown; else of one chain, where a node that is started a second time has
// its fence from whoever starts it.
void World::CheckOneLife(uint32_t who, Rank rank) {
  const Process& mine = processes_[who];
  std::vector<uint32_t>& started = started_on_[rank.value];
  const auto left = std::remove_if(started.begin(), started.end(), [this, rank](uint32_t one) {
    return !Runs(processes_[one], rank);
  });
  started.erase(left, started.end());
  for (const uint32_t one : started) {
    const Process& other = processes_[one];
    const bool judged = config_.journal || (other.key != mine.key && other.chain == mine.chain);
    const bool stands_still = now_ < other.frozen_until || other.thawed == now_ ||
                              other.state.paused || other.lease_watch.stands_still();
    if (one != who && other.alive && judged && !stands_still) {
      Fail(absl::StrCat("fence: rank ", rank.value, " is started on ", mine.config.join.hostname,
                        " while it runs on ", other.config.join.hostname));
    }
  }
  if (std::find(started.begin(), started.end(), who) == started.end()) {
    started.push_back(who);
  }
}

bool World::Runs(const Process& process, Rank rank) {
  for (uint32_t local = 0; local < process.workers.size(); ++local) {
    if (process.workers[local].running &&
        process.state.assignment->RankOf(LocalRank{local}) == rank) {
      return true;
    }
  }
  return false;
}

// Whoever is a member of a round that goes on, and hears the master, does not end its workers.
void World::CheckSurvivors(uint32_t who) {
  const Process& p = processes_[who];
  const auto node = master_.nodes.find(p.state.node);
  const bool hears = p.state.admitted && p.state.outcome == std::nullopt &&
                     p.state.stop_asked == 0 && now_ != p.thawed && p.lease_until > ClockOf(p);
  if (config_.restart == RestartMode::kOne && master_.phase == JobPhase::kRunning && hears &&
      node != master_.nodes.end() && node->second.incarnation == p.state.incarnation &&
      node->second.place >= 0) {
    Fail(absl::StrCat("survivors: ", p.config.join.hostname,
                      " ends its workers, but the job goes on with them"));
  }
}

// A node of a round is where it said it would be, whoever asks and whenever.
void World::CheckPeer(RoundId round, const PeerNode& peer) {
  const auto [it, is_new] = peers_.try_emplace({round, peer.node_rank}, peer);
  if (it->second != peer) {
    Fail(absl::StrCat("peers: node rank ", peer.node_rank.value, " of round ", round.ToString(),
                      " is at ", it->second.address, ":", it->second.port, ", told was ",
                      peer.address, ":", peer.port));
  }
}

// Whoever is said to be gone has ended, or runs on a node that the master has lost.
void World::CheckGone(RoundId round, Rank rank) {
  const RoundId chain = config_.restart == RestartMode::kOne ? master_.chain : round;
  // A round that others have followed is over: who was stopped for them has not ended by itself.
  const bool over = round < (config_.restart == RestartMode::kOne ? master_.chain : master_.round);
  bool gone =
      over || ends_.count({chain, rank.value}) != 0 || lost_.count({chain, rank.value}) != 0;
  for (const LostNode& node : master_.report.lost_nodes) {
    gone |= std::find(node.ranks.begin(), node.ranks.end(), rank.value) != node.ranks.end();
  }
  if (!gone) {
    Fail(absl::StrCat("peers: rank ", rank.value, " of round ", round.ToString(),
                      " is said to be gone, and runs"));
  }
}

// The safety of a lease: who has not been heard of for one runs nothing, but for the moment that
// killing takes. A frozen node cannot do anything about it until it thaws, a paused one until it
// hears that its link is gone. What its shepherd has stopped then does not run, and does not last.
void World::CheckLease(uint32_t who) {
  const Process& p = processes_[who];
  if ((p.running == 0 && !p.saves) || p.state.paused) {
    return;
  }
  const Nanos lease = absl::ToInt64Nanoseconds(config_.lease);
  const bool stands_still = p.running == 0 ? p.saves_later : p.running == p.stood.size();
  const Nanos until = stands_still ? std::max(p.stood_since, p.thawed) + lease
                                   : std::max({p.heard + lease, p.thawed, p.resumed});
  if (now_ > until + kKillTime) {
    Fail(absl::StrCat("lease: workers of ", p.config.join.hostname, " still run ",
                      (now_ - until) / kMilli, " ms after the lease"));
  }
}

// Node order is the order of the host list, whoever was away.
void World::CheckOrder() {
  int32_t last = -1;
  for (const Member& member : master_.members) {
    const int32_t place = master_.nodes.at(member.node).join.node_rank;
    if (place >= 0 && place <= last) {
      Fail(absl::StrCat("order: node ", place, " of the list follows node ", last));
    }
    last = std::max(last, place);
  }
}

// I11: a master that takes over knows every round of which anybody has heard, and how the job ended
// if anybody has.
void World::CheckTakenOver() {
  if (!spawned_.empty() && spawned_.rbegin()->first.first > master_.round) {
    Fail(absl::StrCat("I11: round ", spawned_.rbegin()->first.first.ToString(),
                      " was started, and the next master knows ", master_.round.ToString()));
  }
  for (const Process& p : processes_) {
    if (p.state.outcome.has_value() && !p.state.ended_locally && !master_.report.ended) {
      Fail(absl::StrCat("I11: ", p.config.join.hostname,
                        " has heard that the job is over, the next master has not"));
    }
  }
}

absl::Time World::HeardOf(NodeId node) const {
  const auto it = master_.nodes.find(node);
  return it == master_.nodes.end() ? absl::InfinitePast() : it->second.heard;
}

// I3: a beat of an older life leaves no trace. (That the node was heard of just now says nothing: a
// master that thaws hears much at one instant.)
void World::CheckOldLife(NodeId node, Incarnation incarnation, absl::Time heard_before) {
  const auto it = master_.nodes.find(node);
  if (it != master_.nodes.end() && incarnation < it->second.incarnation &&
      it->second.heard != heard_before) {
    Fail(absl::StrCat("I3: a beat of an older life of node ", node.value, " was believed"));
  }
}

// A worker that died of a signal is not passed over for a peer that ended because of it.
void World::CheckFirstCause() {
  const auto failure = first_failure_.find(master_.round);
  if (failure == first_failure_.end() || failure->second.kind != ExitKind::kSignaled) {
    return;
  }
  const uint32_t rank = failure->second.rank.value;
  for (const ExitRecord& record : master_.report.exits) {
    if (record.exit.rank.value == rank && record.exit.stopped_by_us) {
      return;  // the stop for another failure, of the same millisecond, was there before its exit
    }
  }
  for (const Member& member : master_.members) {
    const NodeState& node = master_.nodes.at(member.node);
    const bool mine = member.Runs(Rank{rank});
    const bool heard = node.incarnation == member.incarnation && node.status != NodeStatus::kLost;
    if (mine && heard && master_.report.first->exit.kind != ExitKind::kSignaled) {
      Fail(absl::StrCat("cause: rank ", rank,
                        " was ended by a signal, but blamed is: ", master_.report.headline));
    }
  }
}

// Nobody is the first cause who failed because of another that failed, or is lost with its node.
void World::CheckBlame() {
  const ExitRecord& first = *master_.report.first;
  const std::optional<Rank> because_of = first.exit.because_of;
  if (!because_of.has_value()) {
    return;
  }
  bool failed = false;
  for (const ExitRecord& record : master_.report.exits) {
    failed |= record.exit.rank == *because_of && !record.exit.stopped_by_us &&
              !BeganAfter(record, first.seen);
  }
  for (const LostNode& node : master_.report.lost_nodes) {
    failed |= std::count(node.ranks.begin(), node.ranks.end(), because_of->value) != 0;
  }
  if (failed) {
    Fail(absl::StrCat("cause: rank ", because_of->value,
                      " failed before, but blamed is: ", master_.report.headline));
  }
}

// Of a round that went on to its end, every worker that did not end well is in the report.
void World::CheckFailuresNamed() {
  std::set<uint32_t> named;
  for (const ExitRecord& record : master_.report.exits) {
    named.insert(record.exit.rank.value);
  }
  for (const LostNode& node : master_.report.lost_nodes) {
    named.insert(node.ranks.begin(), node.ranks.end());
  }
  for (uint32_t rank = 0; rank < master_.world_size; ++rank) {
    const auto end = ends_.find({master_.chain, rank});
    const bool ended_well = end != ends_.end() && end->second.exit.Ok();
    if (!ended_well && named.count(rank) == 0) {
      Fail(absl::StrCat("report: rank ", rank, " failed and is not named"));
    }
  }
}

// A node whose agent has said why it ends, as its port is in use, is not started again.
bool World::HasLeft(const std::string& hostname) const {
  return std::any_of(master_.nodes.begin(), master_.nodes.end(), [&](const auto& one) {
    return one.second.join.hostname == hostname && one.second.status == NodeStatus::kLeft;
  });
}

// With restart=one a worker's failure ends the job only where the budget does not mend it, or where
// the worker needed one that has ended well.
void World::CheckBudgetUsedUp() {
  uint32_t failed = 0;
  for (const ExitRecord& record : master_.report.exits) {
    failed += record.exit.stopped_by_us ? 0 : 1;
    const std::optional<Rank> missed = record.exit.because_of;
    const auto end = ends_.find({master_.chain, missed.value_or(record.exit.rank).value});
    if (!record.exit.stopped_by_us && missed.has_value() && end != ends_.end() &&
        end->second.exit.Ok()) {
      return;
    }
  }
  const RestartRules& rules = config_.rules;
  if (config_.restart == RestartMode::kOne && rules.on_exit.empty() && !rules.of_rank.has_value() &&
      !rules.of_node.has_value() &&
      master_.report.restarts + master_.next.restarts + failed <= config_.restarts_max) {
    Fail(absl::StrCat("restarts: ", master_.report.restarts, " of ", config_.restarts_max,
                      " are used, but the job ended: ", master_.report.headline));
  }
}

// A place is given up only where its own node is not there to take it.
void World::CheckGivenUp() {
  for (const auto& [place, vacancy] : master_.next.vacant) {
    const NodeState& node = master_.nodes.at(master_.members[place].node);
    if (node.status == NodeStatus::kAlive && node.phase == AgentPhase::kReady &&
        node.store_port != 0 && node.heard > node.admitted) {
      Fail(absl::StrCat("places: ", node.join.hostname, " is ready, but its place was given up"));
    }
  }
}

void World::CheckFinish(uint32_t who, const JobOutcome& outcome) {
  if (!options_.faults && outcome.exit_code != master_.report.exit_code) {
    Fail(absl::StrCat(processes_[who].config.join.hostname, " ends with ", outcome.exit_code,
                      ", the job with ", master_.report.exit_code));
  }
  if (processes_[who].running != 0) {
    Fail(absl::StrCat(processes_[who].config.join.hostname, " ends while workers run"));
  }
}

// The job is over, for the right reason, and nobody is left.
void World::CheckEnd() {
  const JobReport& report = master_.report;
  if (over_ < 0) {
    return Fail("progress: nothing is left to happen, and the job has not ended");
  }
  for (const Process& p : processes_) {
    if (p.alive && (p.running != 0 || !p.finished)) {
      return Fail(
          absl::StrCat(p.config.join.hostname, " is still there, with ", p.running, " workers"));
    }
  }
  const bool went_on =
      config_.on_failure == OnFailure::kContinue && master_.stop_reason == StopReason::kNone;
  if (went_on && report.cause != CauseKind::kUser) {
    CheckFailuresNamed();
  }
  switch (report.cause) {
    case CauseKind::kNone:
      for (uint32_t rank = 0; rank < master_.world_size; ++rank) {
        const auto end = ends_.find({master_.chain, rank});
        if (end == ends_.end() || !end->second.exit.Ok()) {
          Fail(absl::StrCat("exit: success is reported, but rank ", rank, " did not end well"));
        }
      }
      return report.exit_code == 0 ? void() : Fail("exit: success with a code");
    case CauseKind::kWorker: {
      const WorkerExit& first = report.first->exit;
      const auto end = ends_.find({master_.chain, first.rank.value});
      if (end == ends_.end() || end->second.exit.ExitCode() != report.exit_code ||
          end->second.exit.pid != first.pid) {
        Fail("exit: the first cause is not what happened");
      }
      CheckBlame();
      CheckBudgetUsedUp();
      return went_on ? void() : CheckFirstCause();
    }
    case CauseKind::kNodeLost:
      CheckGivenUp();
      if (report.headline.empty() ||
          (report.lost_node.empty() && master_stood_ <= absl::ToInt64Nanoseconds(config_.lease))) {
        return Fail(absl::StrCat("exit: a node is blamed, but not named: ", report.headline));
      }
      if (config_.starts_again && config_.on_failure == OnFailure::kStop &&
          !HasLeft(report.lost_node) && report.restarts < config_.restarts_max &&
          NoRuleForbids(config_) && master_.comebacks.empty()) {
        return Fail(absl::StrCat("exit: nobody tried to start it again: ", report.headline));
      }
      return injected_ > 0 || wire_.loss > 0 || wire_.late_max >= kSecond
                 ? void()
                 : Fail(absl::StrCat("a node was lost without any fault: ", report.headline));
    case CauseKind::kUser:
      return report.exit_code == 130 ? void() : Fail("exit: a user's stop without 130");
    case CauseKind::kNeverFormed:
      return config_.starts_again && injected_ + starts_failed_ > 0
                 ? void()
                 : Fail(absl::StrCat("exit: unexpected: ", report.headline));
    case CauseKind::kTimeout:
      return Fail(absl::StrCat("exit: unexpected: ", report.headline));
  }
}

}  // namespace muster::sim
