// What the journal is given: all that a master needs that takes the job over.
#include <utility>

#include "proto/base/mutation.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

DurableNode KeepNode(NodeId id, const NodeState& node) {
  return {id, node.incarnation, node.join, node.store_port, node.rank_kept};
}

}  // namespace

DurableRound KeepRound(const RoundState& s) {
  DurableRound out;
  out.round = s.round;
  for (const Member& member : s.members) {
    out.members.push_back(KeepNode(member.node, s.nodes.at(member.node)));
  }
  for (const auto& [id, node] : s.nodes) {
    if (node.place < 0 && node.rank_kept.has_value()) {
      out.others.push_back(KeepNode(id, node));
    }
  }
  out.node_ids = s.node_ids;
  out.incarnations = s.incarnations;
  out.agreed = s.agreed;
  out.begun = s.begun;
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
  out.lost_node = s.lost_node;
  out.lost_headline = s.lost_headline;
  out.signals = s.signals;
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
    m.record.exits.reset();
    m.record.losses.clear();
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
