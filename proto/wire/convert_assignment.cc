#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/limits.h"
#include "proto/wire/convert.h"
#include "proto/wire/convert_parts.h"

namespace muster {
namespace {

// The runs must be those of this round: names and tables are made from them.
void SetLayoutOf(const v1::Assignment& wire, FieldChecker& check, Assignment& assignment) {
  uint64_t nodes = 0;
  uint64_t workers = 0;
  for (const v1::LayoutRun& run : wire.layout()) {
    check.Bound("assignment.layout.nodes", run.nodes(), 1, assignment.nodes);
    check.Bound("assignment.layout.workers", run.workers(), 1, kWorkersPerNodeMax);
    assignment.layout.emplace_back(run.workers(), run.nodes());
    nodes += run.nodes();
    workers += uint64_t{run.nodes()} * run.workers();
  }
  check.Bound("assignment.layout (nodes)", nodes, assignment.nodes, assignment.nodes);
  check.Bound("assignment.layout (workers)", workers, assignment.world_size, assignment.world_size);
}

// Each rank of the world once, this node's among them where they belong; or none.
void SetRanksByNode(const v1::Assignment& wire, FieldChecker& check, Assignment& assignment) {
  constexpr absl::string_view kField = "assignment.ranks_by_node";
  const auto count = static_cast<size_t>(wire.ranks_by_node_size());
  const size_t wanted = assignment.ranks.empty() ? 0 : assignment.world_size;
  check.Bound(kField, count, wanted, wanted);
  if (!check.ok() || count == 0) {
    return;
  }
  std::vector<bool> seen(count);
  for (const uint32_t rank : wire.ranks_by_node()) {
    if (rank >= count || seen[rank]) {
      return check.Fail(kField, absl::StrCat("want each of 0..", count - 1, " once, got ", rank));
    }
    seen[rank] = true;
  }
  assignment.ranks_by_node.assign(wire.ranks_by_node().begin(), wire.ranks_by_node().end());
  uint64_t node = 0;
  uint64_t first = 0;  // of this node's
  for (const auto& [workers, nodes] : assignment.layout) {
    const uint64_t before =
        std::min<uint64_t>(nodes, std::max<uint64_t>(assignment.node_rank.value, node) - node);
    first += before * workers;
    node += nodes;
  }
  if (!std::equal(assignment.ranks.begin(), assignment.ranks.end(),
                  assignment.ranks_by_node.begin() + static_cast<ptrdiff_t>(first))) {
    check.Fail(kField, "this node has others than assignment.ranks");
  }
}

// Of each worker of this node, or of none; a round keeps workers of earlier ones only.
void SetKept(const v1::Assignment& wire, FieldChecker& check, Assignment& assignment) {
  assignment.keeps_from = RoundOf(wire.keeps_from());
  const bool keeps = !assignment.keeps_from.IsNone();
  if (keeps && assignment.keeps_from >= assignment.round) {
    check.Fail("assignment.keeps_from",
               absl::StrCat("want a round before ", assignment.round.ToString(), ", got ",
                            assignment.keeps_from.ToString()));
  }
  const auto count = static_cast<size_t>(wire.started_in_size());
  const uint32_t wanted = keeps || count > 0 ? assignment.workers : 0;
  check.Bound("assignment.started_in (workers)", count, wanted, wanted);
  for (const uint32_t n : wire.started_in()) {
    check.Bound("assignment.started_in", n, 0, assignment.round.n);
  }
  assignment.started_in.assign(wire.started_in().begin(), wire.started_in().end());
}

void SetWorkerAddresses(const v1::Assignment& wire, FieldChecker& check, Assignment& assignment) {
  check.Bound("assignment.worker_addresses", static_cast<size_t>(wire.worker_addresses_size()), 0,
              size_t{assignment.nodes} * (kNodeAddressesMax + 1));
  for (int i = 0; check.ok() && i < wire.worker_addresses_size(); ++i) {
    assignment.worker_addresses.push_back(
        check.Text("assignment.worker_addresses", wire.worker_addresses(i), kNameBytesMax));
  }
}

// Of every worker, or of none.
void SetWorkerPorts(const v1::Assignment& wire, FieldChecker& check, Assignment& assignment) {
  const auto nodes = static_cast<size_t>(wire.worker_ports_size());
  const uint32_t wanted = nodes == 0 ? 0 : assignment.nodes;
  check.Bound("assignment.worker_ports (nodes)", nodes, wanted, wanted);
  size_t workers = 0;
  for (int i = 0; check.ok() && i < wire.worker_ports_size(); ++i) {
    const v1::WorkerPorts& node = wire.worker_ports(i);
    assignment.worker_ports.push_back(
        {check.Text("assignment.worker_ports", node.address(), kNameBytesMax),
         WorkerPortsOf("assignment.worker_ports", node.ports(),
                       static_cast<uint32_t>(node.ports_size()), check)});
    workers += assignment.worker_ports.back().ports.size();
  }
  const uint32_t world = nodes == 0 ? 0 : assignment.world_size;
  check.Bound("assignment.worker_ports (workers)", workers, world,
              std::min(world, kWorkerPortsMax));
}

}  // namespace

std::vector<uint16_t> WorkerPortsOf(absl::string_view field,
                                    const google::protobuf::RepeatedField<uint32_t>& wire,
                                    uint32_t workers, FieldChecker& check) {
  const auto count = static_cast<size_t>(wire.size());
  check.Bound(field, count, count == 0 ? 0 : workers,
              count == 0 ? 0 : std::min(workers, kWorkersPerNodeMax));
  std::vector<uint16_t> ports;
  for (int i = 0; check.ok() && i < wire.size(); ++i) {
    ports.push_back(static_cast<uint16_t>(check.Number(field, wire.Get(i), 1, 65535)));
  }
  return ports;
}

std::vector<uint32_t> RanksOf(absl::string_view field,
                              const google::protobuf::RepeatedField<uint32_t>& wire,
                              uint32_t workers, uint32_t world_size, FieldChecker& check) {
  const auto count = static_cast<size_t>(wire.size());
  check.Bound(field, count, count == 0 ? 0 : workers, count == 0 ? 0 : workers);
  for (const uint32_t rank : wire) {
    check.Bound(field, rank, 0, uint64_t{world_size} - 1);
  }
  return check.ok() ? std::vector<uint32_t>(wire.begin(), wire.end()) : std::vector<uint32_t>();
}

void SetAssignment(const Assignment& assignment, v1::Assignment* wire) {
  SetRound(assignment.round, wire->mutable_round());
  wire->set_node_rank(assignment.node_rank.value);
  wire->set_nodes(assignment.nodes);
  wire->set_rank_first(assignment.rank_first.value);
  wire->set_workers(assignment.workers);
  wire->set_world_size(assignment.world_size);
  wire->set_master_addr(assignment.master_addr);
  wire->set_master_port(assignment.master_port);
  wire->set_agent_store(assignment.agent_store);
  wire->set_restart_count(assignment.restart_count);
  wire->set_restarts_max(assignment.restarts_max);
  wire->set_because(Cut(assignment.because, kTextBytesMax));
  wire->set_one_host(assignment.one_host);
  for (const auto& [workers, nodes] : assignment.layout) {
    v1::LayoutRun* run = wire->add_layout();
    run->set_workers(workers);
    run->set_nodes(nodes);
  }
  wire->mutable_ranks()->Assign(assignment.ranks.begin(), assignment.ranks.end());
  wire->mutable_ranks_by_node()->Assign(assignment.ranks_by_node.begin(),
                                        assignment.ranks_by_node.end());
  SetRound(assignment.keeps_from, wire->mutable_keeps_from());
  wire->mutable_started_in()->Assign(assignment.started_in.begin(), assignment.started_in.end());
  for (const std::string& address : assignment.worker_addresses) {
    wire->add_worker_addresses(address);
  }
  for (const WorkerPorts& node : assignment.worker_ports) {
    v1::WorkerPorts* ports = wire->add_worker_ports();
    ports->set_address(node.address);
    ports->mutable_ports()->Assign(node.ports.begin(), node.ports.end());
  }
}

Assignment AssignmentOf(const v1::Assignment& wire, FieldChecker& check) {
  Assignment assignment;
  assignment.round = RoundOf(wire.round());
  assignment.nodes = check.Number("assignment.nodes", wire.nodes(), 1, kNodesMax);
  assignment.node_rank.value =
      check.Number("assignment.node_rank", wire.node_rank(), 0, uint64_t{assignment.nodes} - 1);
  assignment.world_size =
      check.Number("assignment.world_size", wire.world_size(), 1, kWorldSizeMax);
  assignment.workers = check.Number("assignment.workers", wire.workers(), 1,
                                    std::min(kWorkersPerNodeMax, assignment.world_size));
  assignment.rank_first.value = check.Number("assignment.rank_first", wire.rank_first(), 0,
                                             uint64_t{assignment.world_size} - assignment.workers);
  assignment.master_addr = check.Text("assignment.master_addr", wire.master_addr(), kNameBytesMax);
  assignment.master_port = check.Port("assignment.master_port", wire.master_port());
  assignment.agent_store = wire.agent_store();
  assignment.restart_count = wire.restart_count();
  assignment.restarts_max =
      check.Number("assignment.restarts_max", wire.restarts_max(), 0, kRestartsMax);
  assignment.because = check.Text("assignment.because", wire.because(), kTextBytesMax);
  assignment.one_host = wire.one_host();
  SetLayoutOf(wire, check, assignment);
  assignment.ranks =
      RanksOf("assignment.ranks", wire.ranks(), assignment.workers, assignment.world_size, check);
  SetRanksByNode(wire, check, assignment);
  SetKept(wire, check, assignment);
  SetWorkerAddresses(wire, check, assignment);
  SetWorkerPorts(wire, check, assignment);
  return assignment;
}

}  // namespace muster
