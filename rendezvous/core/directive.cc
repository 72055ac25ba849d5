// What a node should do: one answer, made anew from the state each time (level, not edge).
#include <algorithm>
#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "proto/base/limits.h"
#include "proto/base/mutation.h"
#include "rendezvous/core/machine.h"
#include "rendezvous/core/why_waiting.h"

namespace muster {
namespace {

constexpr size_t kAddressBytesMax = kMessageBytesMax / 2;
constexpr size_t kAddressFrameBytes = 3;  // a tag and a length

// Each once, in order: that of every node, and of the others as many as fit a message.
std::vector<std::string> AddressesOf(const RoundState& s) {
  std::set<std::string> all;
  size_t bytes = 0;
  const auto add = [&](const std::string& address) {
    if (bytes < kAddressBytesMax && all.insert(address).second) {
      bytes += address.size() + kAddressFrameBytes;
    }
  };
  for (const Member& member : s.members) {
    add(s.nodes.at(member.node).join.address);
  }
  for (const Member& member : s.members) {
    const Join& join = s.nodes.at(member.node).join;
    std::for_each(join.addresses.begin(), join.addresses.end(), add);
  }
  return {all.begin(), all.end()};
}

// Of every worker, or of none.
std::vector<WorkerPorts> WorkerPortsOf(const RoundState& s) {
  std::vector<WorkerPorts> all;
  if (s.world_size > kWorkerPortsMax) {
    return all;
  }
  for (const Member& member : s.members) {
    const Join& join = s.nodes.at(member.node).join;
    if (join.worker_ports.size() != member.workers) {
      return {};
    }
    all.push_back({s.one_host ? s.master_addr : join.address, join.worker_ports});
  }
  return all;
}

Assignment AssignmentOf(const Machine& m, const NodeState& node) {
  const RoundState& s = m.state;
  const Member& member = s.members[static_cast<size_t>(node.place)];
  Assignment a;
  a.round = s.round;
  a.node_rank = NodeRank{static_cast<uint32_t>(node.place)};
  a.nodes = static_cast<uint32_t>(s.members.size());
  a.rank_first = member.rank_first;
  a.workers = member.workers;
  a.world_size = s.world_size;
  a.master_addr = s.master_addr;
  a.master_port = s.master_port;
  a.agent_store = std::all_of(s.members.begin(), s.members.end(), [&](const Member& one) {
    return s.nodes.at(one.node).join.agent_store;
  });
  a.restart_count = s.report.restarts;
  a.restarts_max = m.config.restart == RestartMode::kNever ? 0 : m.config.restarts_max;
  a.because = ToldLast(s);
  a.one_host = s.one_host;
  a.layout = s.layout;
  a.ranks = member.ranks;
  a.ranks_by_node = s.ranks_by_node;
  a.keeps_from = s.chain == s.round ? RoundId() : s.chain;
  if (node.place == 0) {
    a.worker_addresses = AddressesOf(s);
  }
  a.worker_ports = WorkerPortsOf(s);
  for (uint32_t local = 0; !s.started_in.empty() && local < member.workers; ++local) {
    a.started_in.push_back(s.started_in[member.RankAt(local)]);
  }
  return a;
}

void FillSignals(const RoundState& s, const NodeState& node, Directive& d) {
  const uint32_t done =
      std::max(node.signals_before, HoldsRound(s, node) ? node.signals_done : uint32_t{0});
  for (const SignalOrder& order : s.signals) {
    if (order.seq > done) {
      d.signals.push_back(order);
    }
  }
}

// Asked for again with every beat until they are known, or gone.
void FillPeers(const RoundState& s, const Beat& beat, Directive& d) {
  if (d.wanted != Wanted::kRun || beat.round != s.round) {
    return;
  }
  for (const NodeRank sought : beat.sought) {
    if (sought.value < s.members.size()) {
      const Member& member = s.members[sought.value];
      d.peers.push_back({sought, s.nodes.at(member.node).join.address, member.port});
    }
  }
  for (const Rank awaited : beat.awaited) {
    if (awaited.value < s.ended.size() && s.ended[awaited.value]) {
      d.gone.push_back(awaited);
    }
  }
  const auto well = std::find(s.started_in.begin(), s.started_in.end(), 0U);
  if (well != s.started_in.end()) {
    d.ended_well = Rank{static_cast<uint32_t>(well - s.started_in.begin())};
  }
}

// A node that the user started and that has never had a place has not done what it was started for,
// unless it was to be a spare.
JobOutcome OutcomeOf(const Machine& m, const NodeState& node) {
  const JobReport& report = m.state.report;
  const bool is_full = m.state.members.size() >= m.config.nodes_max;
  if (report.exit_code != 0 || WantsSpares(m.config) || !is_full || node.rank_kept.has_value()) {
    return {report.exit_code, report.headline};
  }
  return {1,
          "the job has ended, and the workers of this node never ran: others had all the places "
          "(for a job of its own: another --rdzv-id; for a node that stands by: --spares)"};
}

void FillWanted(Machine& m, const NodeState& node, Directive& d) {
  RoundState& s = m.state;
  d.round = node.round;
  if (s.phase == JobPhase::kEnding || s.phase == JobPhase::kEnded) {
    d.wanted = Wanted::kEnd;
    d.stop_signal = s.stop_signal;
    d.grace = s.stop_grace;
    d.outcome = OutcomeOf(m, node);
  } else if (s.phase == JobPhase::kRunning && node.place >= 0) {
    d.wanted = Wanted::kRun;
    d.round = s.round;
    if (node.round != s.round) {
      d.assignment = AssignmentOf(m, node);
    }
    FillSignals(s, node, d);
  } else if (s.phase == JobPhase::kStopping && node.place >= 0) {
    d.wanted = Wanted::kStop;
    d.round = s.round;
    d.stop_signal = s.stop_signal;
    d.grace = s.stop_grace;
    d.stop_is_final = s.stop_is_final;
  } else if (node.phase != AgentPhase::kReady) {
    d.wanted = Wanted::kStop;  // it holds a round that goes on without it
    d.stop_signal = SIGTERM;
    d.grace = m.config.restart_grace;
  } else {
    d.wanted = Wanted::kWait;
    d.note = IsSetAside(s, d.node, m.now)       ? WhySetAside(s.set_aside.at(d.node), m.now)
             : WaitsForLease(m.config, s, node) ? WhyWaitsForLease(m.config, s, node)
                                                : WaitingNote(m);
  }
}

Directive DirectiveFor(Machine& m, NodeId id, const Beat* answered) {
  const uint64_t beat_seq = answered == nullptr ? 0 : answered->seq;
  const NodeState& node = m.state.nodes.at(id);
  Directive d;
  d.node = id;
  d.incarnation = node.incarnation;
  d.beat_seq = beat_seq;
  FillWanted(m, node, d);
  if (answered != nullptr) {
    FillPeers(m.state, *answered, d);
  }
  d.exits_seen = d.round == node.round || HoldsRound(m.state, node) ? node.exits_seen : 0;
  d.paused = m.state.paused;
  d.drills = node.drills;
  if (Mutated(Mutation::kStopNotRepeated) && d.wanted == Wanted::kStop && beat_seq != 0) {
    d.wanted = Wanted::kWait;
  }
  return d;
}

}  // namespace

void SendDirective(Machine& m, NodeId id, const Beat* answered) {
  Directive directive = DirectiveFor(m, id, answered);
  m.out.push_back(Send{id, directive.incarnation, std::move(directive)});
}

void SendNotices(Machine& m, NodeId id, std::vector<std::string> notices) {
  Directive directive = DirectiveFor(m, id, nullptr);
  directive.notices = std::move(notices);
  m.out.push_back(Send{id, directive.incarnation, std::move(directive)});
}

void SendToMembers(Machine& m) {
  for (const Member& member : m.state.members) {
    const NodeState& node = m.state.nodes.at(member.node);
    if (node.status == NodeStatus::kAlive && node.incarnation == member.incarnation &&
        member.node != m.answering) {
      SendDirective(m, member.node, nullptr);
    }
  }
}

void SendToAll(Machine& m) {
  for (const auto& [id, node] : m.state.nodes) {
    if (node.status == NodeStatus::kAlive && id != m.answering) {
      SendDirective(m, id, nullptr);
    }
  }
}

}  // namespace muster
