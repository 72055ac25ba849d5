#include "launcher/planned_places.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/core/bindings_report.h"
#include "agent/core/facts.h"
#include "agent/io/node_facts.h"
#include "agent/io/topology_reader.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

absl::StatusOr<DescribedTopology> ThisMachine(const JobSpec& spec) {
  DescribedTopology out;
  const NodeQuery query = OwnQuery(spec.plan.binding.cpu_list);
  ASSIGN_OR_RETURN(NodeFacts facts, ReadNodeFacts(query));
  out.allowed = std::move(facts.cpus);
  out.topology = ReadTopology(out.allowed, query.cuda_visible);
  return out;
}

std::vector<uint32_t> RanksOf(const PlanNode& node) {
  std::vector<uint32_t> out = node.ranks;
  for (uint32_t i = 0; out.size() < node.workers; ++i) {
    out.push_back(node.rank_first + i);
  }
  return out;
}

PlannedPlaces Placed(const NodePlaces& node) {
  PlannedPlaces out;
  out.text = PlacesText(node);
  for (size_t local = 0; local < node.plan.workers.size(); ++local) {
    const WorkerShare& share = node.plan.workers[local];
    out.workers.push_back({node.ranks[local], share.bound, share.cpus.Text(), share.cores,
                           share.sharers, share.memory, share.gpus});
  }
  return out;
}

}  // namespace

absl::Status CountDescribed(DescribedTopology& described, JobSpec& spec) {
  const CpuBinding& binding = spec.plan.binding;
  if (!binding.cpu_list.empty()) {
    described.allowed.Intersect(*ParseCpuList(binding.cpu_list));
  }
  NodeFacts node;
  node.hostname = "the node that is described";
  node.cpus_allowed = described.allowed.Count();
  node.gpus = static_cast<uint32_t>(described.topology.gpus.size());
  const auto count = [&](WorkersWanted& wanted, uint32_t& workers) -> absl::Status {
    if (wanted == WorkersWanted::kObjects) {
      workers = PlacesByObjects(described.topology, described.allowed, binding);
    } else {
      WorkPlan plan;
      plan.workers_wanted = wanted;
      plan.workers = workers;
      ASSIGN_OR_RETURN(workers, WorkersOnNode(plan, node));
    }
    wanted = WorkersWanted::kNumber;
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(count(spec.plan.workers_wanted, spec.plan.workers));
  for (NodeWorkers& each : spec.nodes) {
    RETURN_IF_ERROR(count(each.wanted, each.workers));
  }
  return absl::OkStatus();
}

absl::Status AddPlaces(const JobSpec& spec, std::optional<DescribedTopology> described,
                       LaunchPlan& plan) {
  const bool all = described.has_value();
  CpuBinding binding = spec.plan.binding;
  if (spec.way == StartWay::kStandalone && AsTheyCome(binding)) {
    binding.bind_to = BindTo::kNone;  // its nodes share this machine
  }
  std::set<uint32_t> told;
  for (const PlanNode& node : plan.nodes) {
    const bool here = node.starter == "embedded" || node.starter == "local";
    if (node.workers == 0 || !(all || here) || !WantsPlan(binding, node.workers) ||
        !told.insert(node.workers).second) {
      continue;
    }
    if (!described.has_value()) {
      ASSIGN_OR_RETURN(described, ThisMachine(spec));
    }
    ASSIGN_OR_RETURN(const CpuPlan places,
                     PlanCpus(described->topology, described->allowed, node.workers, binding));
    const std::string host = all                 ? described->source
                             : node.name.empty() ? "this machine"
                                                 : node.name;
    plan.places.push_back(
        Placed({host, described->topology, described->allowed, RanksOf(node), places}));
  }
  return absl::OkStatus();
}

}  // namespace muster
