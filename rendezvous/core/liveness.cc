#include "rendezvous/core/liveness.h"

#include <utility>

namespace muster {

absl::Duration SuspectTime(const RoundConfig& config) {
  return config.journal ? config.lease + config.lease_slack : config.reconnect_window;
}

void Watch(RoundState& state, NodeId id, NodeState& node, absl::Time expires) {
  node.expires = expires;
  if (node.watched != absl::InfinitePast()) {
    if (node.watched <= expires) {
      return;  // L2
    }
    state.expiries.erase({node.watched, id});
  }
  node.watched = expires;
  state.expiries.insert({expires, id});
}

void Unwatch(RoundState& state, NodeId id, NodeState& node) {
  state.expiries.erase({node.watched, id});
  node.watched = absl::InfinitePast();
}

std::vector<NodeId> TakeExpired(RoundState& state, absl::Time now) {
  std::vector<NodeId> expired;
  while (!state.expiries.empty() && state.expiries.begin()->first <= now) {
    const NodeId id = state.expiries.begin()->second;
    state.expiries.erase(state.expiries.begin());
    NodeState& node = state.nodes.at(id);
    if (node.expires <= now) {
      node.watched = absl::InfinitePast();
      expired.push_back(id);
    } else {
      node.watched = node.expires;
      state.expiries.insert({node.watched, id});
    }
  }
  return expired;
}

absl::Time NextExpiry(const RoundState& state) {
  return state.expiries.empty() ? absl::InfiniteFuture() : state.expiries.begin()->first;
}

void RenewAll(const RoundConfig& config, RoundState& state, absl::Time now) {
  for (auto& [id, node] : state.nodes) {
    if (node.IsLive()) {
      Unwatch(state, id, node);
      Watch(state, id, node,
            now + (node.status == NodeStatus::kAlive ? config.lease + config.lease_slack
                                                     : SuspectTime(config)));
    }
  }
}

}  // namespace muster
