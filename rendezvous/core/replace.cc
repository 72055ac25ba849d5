// --restart=one: what has failed is started anew by another round, in which all others live on.
//
// The rounds that keep each other's workers are a chain: the same places, ranks and world, and only
// what failed is new. A failure costs one restart. One that says whom it follows (because_of) costs
// none of its own: not where that one has been replaced since, or is about to be, and not where it
// came first and the other one follows. So each restart that counts brings at most one free
// replacement of each other worker.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/mutation.h"
#include "proto/base/text.h"
#include "rendezvous/core/cause.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

bool RunsOnVacant(const RoundState& s, Rank rank) {
  return std::any_of(s.next.vacant.begin(), s.next.vacant.end(),
                     [&](const auto& one) { return s.members[one.first].Runs(rank); });
}

// It has been replaced since the other one was started, or is about to be.
bool IsReplacedSince(const RoundState& s, Rank rank, Rank other) {
  return s.next.ranks.count(rank.value) != 0 || RunsOnVacant(s, rank) ||
         s.started_in[rank.value] > s.started_in[other.value];
}

// Whether this failure costs a restart of its own.
bool Costs(RoundState& s, const WorkerExit& exit) {
  const bool paid = s.paid_for.erase(exit.rank.value) != 0;
  const std::optional<Rank> blamed = exit.because_of;
  if (blamed.has_value() && blamed->value < s.world_size) {
    if (IsReplacedSince(s, *blamed, exit.rank)) {
      return false;
    }
    s.paid_for.insert(blamed->value);
  }
  return !paid;
}

// Charges a restart for it; false where none is left.
bool Pay(Machine& m, const Failure& failure, const std::string& what) {
  const Verdict verdict = Judge(m.config, m.state, failure);
  if (!verdict.why_not.empty()) {
    return false;
  }
  Replacement& next = m.state.next;
  if (!next.used_before.has_value()) {
    next.used_before = m.state.used;
  }
  ++next.restarts;
  next.lines.push_back(absl::StrCat(what, "; replaced: ", ChargeRestart(m, failure, verdict)));
  return true;
}

bool Fits(const Member& place, const NodeState& node) {
  return node.join.workers == place.workers &&
         (node.join.ranks.empty() || node.join.ranks == place.ranks);
}

// Nothing runs any more of what the lost node ran there, also if nobody heard it say so.
bool IsFree(const Machine& m, const Member& place, absl::Time free_at) {
  const NodeState& last = m.state.nodes.at(place.node);
  const bool holds = last.IsLive() && last.phase != AgentPhase::kReady;
  return Mutated(Mutation::kPlaceTakenAtOnce) || (m.now >= free_at && !holds);
}

// Which node takes each vacant place: its own if it is back, else any that fits, one that is set
// aside last.
std::map<uint32_t, NodeId> Takers(const Machine& m) {
  const RoundState& s = m.state;
  std::map<uint32_t, NodeId> takers;
  std::set<NodeId> left = s.ready;
  for (const NodeId id : s.lost_in_place) {
    left.erase(id);
  }
  for (const auto& [place, vacancy] : s.next.vacant) {
    const Member& member = s.members[place];
    if (left.count(member.node) != 0 && Fits(member, s.nodes.at(member.node))) {
      left.erase(member.node);
      takers[place] = member.node;
    }
  }
  for (const auto& [place, vacancy] : s.next.vacant) {
    const Member& member = s.members[place];
    const auto fits = [&](NodeId id) { return Fits(member, s.nodes.at(id)); };
    auto taker = std::find_if(left.begin(), left.end(),
                              [&](NodeId id) { return fits(id) && !IsSetAside(s, id, m.now); });
    if (taker == left.end()) {
      taker = std::find_if(left.begin(), left.end(), fits);
    }
    if (takers.count(place) == 0 && taker != left.end() && IsFree(m, member, vacancy.free_at)) {
      takers[place] = *taker;
      left.erase(taker);
    }
  }
  return takers;
}

void Take(RoundState& s, uint32_t place, NodeId id) {
  Member& member = s.members[place];
  NodeState& node = s.nodes.at(id);
  member.node = id;
  member.incarnation = node.incarnation;
  member.port = node.store_port;
  member.since = s.round;
  node.place = static_cast<int32_t>(place);
  node.signals_before = s.signals.empty() ? 0 : s.signals.back().seq;
  if (!node.rank_kept.has_value()) {
    node.rank_kept = NodeRank{place};
  }
  s.pending.insert(id);
  s.ready.erase(id);
  for (uint32_t local = 0; local < member.workers; ++local) {
    const uint32_t rank = member.RankAt(local);
    if (s.started_in[rank] != 0) {
      s.next.ranks.insert(rank);
    }
  }
}

void TellReplaced(Machine& m) {
  RoundState& s = m.state;
  s.report.restarts += Mutated(Mutation::kRestartNotCounted) ? 0 : s.next.restarts;
  for (std::string& line : s.next.lines) {
    TellNext(m, std::move(line));
  }
}

void StartRoundThatKeeps(Machine& m, const std::map<uint32_t, NodeId>& takers) {
  RoundState& s = m.state;
  TellReplaced(m);
  s.round = NextRound(m.config, s);
  s.round_began = m.now;
  s.blamed.clear();
  for (const auto& [place, id] : takers) {
    Take(s, place, id);
  }
  for (const uint32_t rank : s.next.ranks) {
    s.started_in[rank] = s.round.n;
    s.ended[rank] = s.told[rank] = false;
  }
  // With OnFailure::kContinue others may have failed that nothing replaces.
  std::erase_if(s.report.exits, [&s](const ExitRecord& record) {
    return s.next.ranks.count(record.exit.rank.value) != 0;
  });
  s.next = Replacement();
  if (!takers.empty()) {
    SetAddresses(m.config, s);
  }
  s.unstarted = s.pending;
  s.note_stale = true;
  if (m.config.journal && !Mutated(Mutation::kRoundNotKept)) {
    m.record.round = KeepRound(s);
  }
  m.out.push_back(RoundStarted{s.round, s.world_size, static_cast<uint32_t>(s.members.size())});
  SendToMembers(m);
  TellUnlikePrograms(m);
}

// Of a host list no other nodes come than those that are there, or are being started again. A lost
// one may come back by itself until its lease is over.
bool NobodyCanCome(const Machine& m) {
  const RoundState& s = m.state;
  const size_t in_places = s.members.size() - s.next.vacant.size() - s.lost_in_place.size();
  return !m.config.expected.empty() && s.coming == 0 && s.live <= in_places &&
         std::all_of(s.next.vacant.begin(), s.next.vacant.end(),
                     [&m](const auto& place) { return place.second.free_at <= m.now; });
}

// They are not started anew for themselves.
void ForgetRanks(RoundState& s, const Member& member) {
  for (uint32_t local = 0; local < member.workers; ++local) {
    s.next.ranks.erase(member.RankAt(local));
  }
}

std::string NobodyCame(const Machine& m) {
  const Replacement& next = m.state.next;
  return absl::StrCat(next.vacant.begin()->second.headline, "; no node came to take its place for ",
                      ShortDuration(m.now - next.since));
}

}  // namespace

bool HoldsRound(const RoundState& state, const NodeState& node) {
  return node.place >= 0 && node.round <= state.round &&
         node.round >= state.members[static_cast<size_t>(node.place)].since;
}

bool ReplaceWorkers(Machine& m, NodeState& node, size_t first) {
  RoundState& s = m.state;
  if (m.config.restart != RestartMode::kOne) {
    return false;
  }
  const Replacement next = s.next;
  const RestartsUsed used = s.used;
  const std::set<uint32_t> paid_for = s.paid_for;
  uint32_t failed = 0;
  for (size_t i = first; i < s.report.exits.size(); ++i) {
    const ExitRecord& record = s.report.exits[i];
    if (!IsFailure(record.exit)) {
      continue;
    }
    ++failed;
    const Failure failure = {record.node, &record};
    const bool costs = Costs(s, record.exit) || MissedForEver(s, failure).has_value();
    if (costs && !Pay(m, failure, ExitSentence(record))) {
      s.next = next;
      s.used = used;
      s.paid_for = paid_for;
      return false;
    }
    s.next.ranks.insert(record.exit.rank.value);
  }
  node.exits_failed -= failed;
  return failed != 0;
}

bool ReplaceNode(Machine& m, NodeId id, const std::string& headline) {
  RoundState& s = m.state;
  if (m.config.restart != RestartMode::kOne) {
    return false;
  }
  NodeState& node = s.nodes.at(id);
  if (s.pending.count(id) == 0) {
    s.lost_in_place.insert(id);
    m.out.push_back(Tell{absl::StrCat(headline, "; its workers had ended before")});
    return true;
  }
  if (!Pay(m, LossOf(s, id, headline), headline)) {
    return false;
  }
  const auto place = static_cast<uint32_t>(node.place);
  const Member& member = s.members[place];
  for (uint32_t local = 0; local < member.workers; ++local) {
    s.ended[member.RankAt(local)] = true;
  }
  ForgetRanks(s, member);
  if (s.next.vacant.empty()) {
    s.next.since = m.now;
  }
  const bool left = node.status == NodeStatus::kLeft;
  const absl::Time lease_over = node.heard + m.config.lease + m.config.lease_slack;
  s.next.vacant[place] = {left ? m.now : lease_over, headline};
  s.pending.erase(id);
  s.unstarted.erase(id);
  node.place = -1;
  m.out.push_back(
      Tell{absl::StrCat(headline, "; the others wait for a node that takes its place")});
  return true;
}

void NotReplaced(Machine& m, NodeId id) {
  RoundState& s = m.state;
  s.lost_in_place.insert(id);
  ForgetRanks(s, s.members[static_cast<size_t>(s.nodes.at(id).place)]);
  if (s.next.IsNone()) {
    s.next = Replacement();
  }
}

void TryReplace(Machine& m) {
  RoundState& s = m.state;
  if (s.phase != JobPhase::kRunning || s.next.IsNone() || s.paused) {
    return;
  }
  const std::map<uint32_t, NodeId> takers = Takers(m);
  if (takers.size() == s.next.vacant.size()) {
    return StartRoundThatKeeps(m, takers);
  }
  if (m.now >= s.next.since + m.config.join_timeout || NobodyCanCome(m)) {
    StopForNode(m, s.members[s.next.vacant.begin()->first].node, NobodyCame(m));
  }
}

absl::Time NextReplacement(const Machine& m) {
  const RoundState& s = m.state;
  if (s.phase != JobPhase::kRunning || s.next.vacant.empty()) {
    return absl::InfiniteFuture();
  }
  absl::Time at = s.next.since + m.config.join_timeout;
  for (const auto& [place, vacancy] : s.next.vacant) {
    at = vacancy.free_at > m.now ? std::min(at, vacancy.free_at) : at;
  }
  return at;
}

}  // namespace muster
