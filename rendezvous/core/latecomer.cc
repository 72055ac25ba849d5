#include "rendezvous/core/latecomer.h"

#include <algorithm>

#include "rendezvous/core/agreement.h"

namespace muster {
namespace {

bool WasThereAtTheEnd(const RoundState& state, NodeId id, const NodeState& node) {
  const bool member = std::any_of(state.members.begin(), state.members.end(),
                                  [&](const Member& one) { return one.node == id; });
  return node.ended || (member && node.status != NodeStatus::kLost);
}

}  // namespace

bool ComesTooLate(const RoundConfig& config, const RoundState& state, const Join& join) {
  const bool ended_well = state.phase == JobPhase::kEnded && state.report.exit_code == 0;
  if (!ended_well || config.nodes_min == config.nodes_max || state.round.IsNone() ||
      state.members.size() >= config.nodes_max ||
      FirstDifference(state.agreed.options, join.must_agree).has_value()) {
    return false;
  }
  return std::none_of(state.nodes.begin(), state.nodes.end(), [&](const auto& known) {
    return known.second.join.hostname == join.hostname &&
           WasThereAtTheEnd(state, known.first, known.second);
  });
}

}  // namespace muster
