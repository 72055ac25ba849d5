// What the journal is given: all that a master needs that takes the job over.
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "proto/base/mutation.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

DurableNode KeepNode(NodeId id, const NodeState& node) {
  return {id, node.incarnation, node.join, node.store_port, node.rank_kept};
}

bool IsThere(const RoundState& s, const Member& member) {
  const NodeState& node = s.nodes.at(member.node);
  return node.IsLive() && node.incarnation == member.incarnation;
}

// As it took its place; its node may have a new life since then. `told`: its exits in the report.
DurableNode KeepMember(const RoundState& s, const Member& member, uint32_t told) {
  const NodeState& node = s.nodes.at(member.node);
  DurableNode out = KeepNode(member.node, node);
  out.incarnation = member.incarnation;
  out.store_port = member.port;
  out.join.workers = member.workers;
  if (out.join.worker_ports.size() != member.workers) {
    out.join.worker_ports.clear();  // of another life, which is not in the round
  }
  out.join.ranks = member.ranks;
  out.since = member.since;
  out.signals_before = node.signals_before;
  // One that has not heard of that round counts anew when it does.
  if (IsThere(s, member) && member.since != s.round && HoldsRound(s, node)) {
    out.exits_before = node.exits_seen - told;
  }
  return out;
}

// Of the round that has just started: exits that the report still has, of workers that it keeps.
std::vector<Beat> KeepExits(const Machine& m, const DurableRound& round) {
  std::map<NodeId, uint32_t> numbers;
  for (const DurableNode& member : round.members) {
    numbers[member.node] = member.exits_before;
  }
  std::vector<Beat> out;
  for (const ExitRecord& record : m.state.report.exits) {
    const auto number = numbers.find(record.node);
    if (number == numbers.end()) {
      continue;  // of one whose place is another one's by now
    }
    Beat& beat = out.emplace_back();
    beat.node = record.node;
    beat.round = round.round;
    beat.exits_from = number->second++;
    beat.exits.push_back(record.exit);
    beat.exits.back().age = m.now - record.seen;
  }
  return out;
}

// Members that it has though they are gone.
std::vector<DurableLoss> KeepLosses(const RoundState& s) {
  std::vector<DurableLoss> out;
  for (const Member& member : s.members) {
    if (!IsThere(s, member)) {
      const NodeState& node = s.nodes.at(member.node);
      out.push_back({member.node, node.status == NodeStatus::kLeft, node.lost_why});
    }
  }
  return out;
}

}  // namespace

DurableRound KeepRound(const RoundState& s) {
  DurableRound out;
  out.round = s.round;
  std::map<NodeId, uint32_t> told;
  for (const ExitRecord& record : s.report.exits) {
    ++told[record.node];
  }
  std::set<NodeId> members;
  for (const Member& member : s.members) {
    out.members.push_back(KeepMember(s, member, told[member.node]));
    members.insert(member.node);
  }
  for (const auto& [id, node] : s.nodes) {
    if (members.count(id) == 0 && node.rank_kept.has_value()) {
      out.others.push_back(KeepNode(id, node));
    }
  }
  out.node_ids = s.node_ids;
  out.incarnations = s.incarnations;
  out.agreed = s.agreed;
  out.chain = s.chain;
  out.started_in = s.started_in;
  return out;
}

DurableProgress KeepProgress(const RoundState& s) {
  DurableProgress out;
  out.phase = s.phase;
  out.stop_reason = s.stop_reason;
  out.stop_signal = s.stop_signal;
  out.stop_grace = s.stop_grace;
  out.stop_is_final = s.stop_is_final;
  out.user_signo = s.user_signo;
  out.lost_id = s.lost_id;
  out.lost_node = s.lost_node;
  out.lost_headline = s.lost_headline;
  out.signals = s.signals;
  out.next.ranks.assign(s.next.ranks.begin(), s.next.ranks.end());
  for (const auto& [place, vacancy] : s.next.vacant) {
    out.next.vacant.emplace_back(place, vacancy.headline);
  }
  out.next.restarts = s.next.restarts;
  out.next.lines = s.next.lines;
  out.next.used_before = s.next.used_before;
  out.paid_for.assign(s.paid_for.begin(), s.paid_for.end());
  out.used = s.used;
  out.failures = s.failures;
  out.set_aside = s.set_aside;
  out.short_rounds = s.short_rounds;
  out.not_before = s.last_restart.not_before;
  out.restart_text = s.last_restart.text;
  out.lived = s.lived;
  out.begun = s.begun;
  out.round_began = s.round_began;
  out.stop_began = s.phase == JobPhase::kStopping ? s.stop_began : absl::InfinitePast();
  if (s.paused) {
    out.paused_since = s.paused_since;
  }
  out.restarts = s.report.restarts;
  out.regroupings = s.report.regroupings;
  out.ended = s.report.ended;
  out.exit_code = s.report.exit_code;
  out.cause = s.report.cause;
  out.headline = s.report.headline;
  out.blamed_node = s.report.lost_node;
  if (s.report.first.has_value()) {
    out.first = s.report.first->exit.rank;
  }
  out.history = s.report.history;
  return out;
}

void Keep(Machine& m) {
  RoundState& s = m.state;
  if (s.round.IsNone() && !s.report.ended) {
    return;  // nobody holds anything yet: such a job begins anew with another master
  }
  if (m.record.round.has_value()) {  // it says all
    m.record.exits = KeepExits(m, *m.record.round);
    m.record.losses = KeepLosses(s);
    s.lost_nodes_journaled = 0;
  }
  const std::vector<LostNode>& lost = s.report.lost_nodes;
  m.record.lost_nodes.assign(lost.begin() + static_cast<ptrdiff_t>(s.lost_nodes_journaled),
                             lost.end());
  s.lost_nodes_journaled = lost.size();
  DurableProgress progress = KeepProgress(s);
  if (m.record.round.has_value() || progress != s.journaled) {
    s.journaled = progress;
    m.record.progress = std::move(progress);
  }
  if (m.record.IsEmpty()) {
    return;
  }
  m.record.at = m.now;
  const auto where = Mutated(Mutation::kSentBeforeDurable) ? m.out.end() : m.out.begin();
  m.out.insert(where, Persist{std::move(m.record)});
}

}  // namespace muster
