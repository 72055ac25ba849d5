#include "agent/core/dialects.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/limits.h"
#include "proto/base/text.h"

namespace muster {
namespace {

enum class Quantity : uint8_t {
  kRank,
  kWorldSize,
  kLocalRank,
  kLocalSize,
  kNodeRank,
  kNodes,
  kCrossRank,
  kCrossSize,
};

struct Name {
  absl::string_view dialect;
  absl::string_view name;
  Quantity quantity;
};

// No name here makes a library look for a server (PMI_FD, PMI_PORT).
constexpr Name kNames[] = {
    {"ompi", "OMPI_COMM_WORLD_RANK", Quantity::kRank},
    {"ompi", "OMPI_COMM_WORLD_SIZE", Quantity::kWorldSize},
    {"ompi", "OMPI_COMM_WORLD_LOCAL_RANK", Quantity::kLocalRank},
    {"ompi", "OMPI_COMM_WORLD_LOCAL_SIZE", Quantity::kLocalSize},
    {"ompi", "OMPI_COMM_WORLD_NODE_RANK",
     Quantity::kLocalRank},  // place on the node, says Open MPI
    {"ompi", "OMPI_UNIVERSE_SIZE", Quantity::kWorldSize},
    {"pmi", "PMI_RANK", Quantity::kRank},
    {"pmi", "PMI_SIZE", Quantity::kWorldSize},
    {"pmix", "PMIX_RANK", Quantity::kRank},
    {"mpich", "MPI_LOCALRANKID", Quantity::kLocalRank},
    {"mpich", "MPI_LOCALNRANKS", Quantity::kLocalSize},
    {"mvapich", "MV2_COMM_WORLD_RANK", Quantity::kRank},
    {"mvapich", "MV2_COMM_WORLD_SIZE", Quantity::kWorldSize},
    {"mvapich", "MV2_COMM_WORLD_LOCAL_RANK", Quantity::kLocalRank},
    {"mvapich", "MV2_COMM_WORLD_LOCAL_SIZE", Quantity::kLocalSize},
    {kDialectHorovod, "HOROVOD_RANK", Quantity::kRank},
    {kDialectHorovod, "HOROVOD_SIZE", Quantity::kWorldSize},
    {kDialectHorovod, "HOROVOD_LOCAL_RANK", Quantity::kLocalRank},
    {kDialectHorovod, "HOROVOD_LOCAL_SIZE", Quantity::kLocalSize},
    {kDialectHorovod, "HOROVOD_CROSS_RANK", Quantity::kCrossRank},
    {kDialectHorovod, "HOROVOD_CROSS_SIZE", Quantity::kCrossSize},
    {"jsm", "JSM_NAMESPACE_RANK", Quantity::kRank},
    {"jsm", "JSM_NAMESPACE_SIZE", Quantity::kWorldSize},
    {"jsm", "JSM_NAMESPACE_LOCAL_RANK", Quantity::kLocalRank},
    {"flux", "FLUX_TASK_RANK", Quantity::kRank},
    {"flux", "FLUX_JOB_SIZE", Quantity::kWorldSize},
    {"flux", "FLUX_TASK_LOCAL_ID", Quantity::kLocalRank},
    {"flux", "FLUX_JOB_NNODES", Quantity::kNodes},
    {"deepspeed", "CROSS_RANK", Quantity::kNodeRank},
    {"deepspeed", "CROSS_SIZE", Quantity::kNodes},
    {"deepspeed", "LOCAL_SIZE", Quantity::kLocalSize},
    {"lightning", "NODE_RANK", Quantity::kNodeRank},
};

// Words of --dialect that no name above has.
constexpr absl::string_view kOtherDialects[] = {"torch", "slurm", "slurm-keep", "slurm-scrub",
                                                kDialectTensorFlow};

constexpr absl::string_view kSlurmTask = "Slurm's name, for this worker instead of the agent";

uint32_t ValueOf(const Place& place, Quantity quantity) {
  switch (quantity) {
    case Quantity::kRank:
      return place.rank;
    case Quantity::kWorldSize:
      return place.world_size;
    case Quantity::kLocalRank:
      return place.local_rank;
    case Quantity::kLocalSize:
      return place.local_size;
    case Quantity::kNodeRank:
      return place.node_rank;
    case Quantity::kNodes:
      return place.nodes;
    case Quantity::kCrossRank:
      return place.cross_rank;
    case Quantity::kCrossSize:
      return place.cross_size;
  }
  return 0;
}

void SetCross(const Assignment& assignment, Place& place) {
  uint32_t node = 0;
  uint32_t before = 0;
  uint32_t all = 0;
  for (const auto& [workers, nodes] : assignment.layout) {
    if (workers > place.local_rank) {
      all += nodes;
      before += std::min(nodes, place.node_rank > node ? place.node_rank - node : 0);
    }
    node += nodes;
  }
  place.cross_rank = before;
  place.cross_size = all;
}

}  // namespace

std::string LayoutText(const std::vector<std::pair<uint32_t, uint32_t>>& layout) {
  return absl::StrJoin(layout, ",", [](std::string* out, const std::pair<uint32_t, uint32_t>& run) {
    absl::StrAppend(out, run.first, run.second == 1 ? "" : absl::StrCat("(x", run.second, ")"));
  });
}

Place PlaceOf(const Assignment& assignment, LocalRank local) {
  Place place;
  place.rank = assignment.RankOf(local).value;
  place.world_size = assignment.world_size;
  place.local_rank = local.value;
  place.local_size = assignment.workers;
  place.node_rank = assignment.node_rank.value;
  place.nodes = assignment.nodes;
  SetCross(assignment, place);
  return place;
}

std::vector<absl::string_view> DialectWords() {
  std::vector<absl::string_view> out(std::begin(kOtherDialects), std::end(kOtherDialects));
  for (const Name& name : kNames) {
    if (out.back() != name.dialect) {
      out.push_back(name.dialect);
    }
  }
  return out;
}

void AppendDialects(const std::vector<std::string>& dialects, const Place& place,
                    std::vector<EnvVar>& out) {
  for (const Name& name : kNames) {
    if (HasWord(dialects, name.dialect)) {
      out.push_back({std::string(name.name), absl::StrCat(ValueOf(place, name.quantity)),
                     absl::StrCat("--dialect ", name.dialect)});
    }
  }
}

std::string TensorFlowConfig(const Assignment& assignment, uint32_t rank) {
  if (assignment.worker_ports.empty()) {
    return "{}";
  }
  std::vector<std::string> by_rank(assignment.world_size);
  size_t next = 0;
  for (const WorkerPorts& node : assignment.worker_ports) {
    for (const uint16_t port : node.ports) {
      const size_t of = assignment.ranks_by_node.empty() ? next : assignment.ranks_by_node.at(next);
      by_rank.at(of) = HostPort(node.address, port);
      ++next;
    }
  }
  return absl::StrCat(R"({"cluster": {"worker": [")", absl::StrJoin(by_rank, R"(", ")"),
                      R"("]}, "task": {"type": "worker", "index": )", rank, "}}");
}

absl::Status CheckDialects(const WorkPlan& plan, const Assignment& assignment) {
  const bool has_mpi = plan.mpi == MpiMode::kPmi1 || plan.mpi == MpiMode::kPmix;  // the controller
  if (HasWord(plan.dialects, kDialectHorovod) && !has_mpi &&
      absl::StrContains(assignment.master_addr, ':')) {
    return absl::FailedPreconditionError(
        absl::StrCat("--dialect horovod: the nodes meet at ", assignment.master_addr,
                     ", and Horovod's HTTP client takes what comes before the first ':' for the "
                     "host: give the nodes IPv4 addresses, and name their network by --iface"));
  }
  if (!HasWord(plan.dialects, kDialectTensorFlow) || !assignment.worker_ports.empty()) {
    return absl::OkStatus();
  }
  if (assignment.world_size > kWorkerPortsMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("--dialect tf: TF_CONFIG says the addresses of at most ", kWorkerPortsMax,
                     " workers, and the job has ", assignment.world_size,
                     ": start fewer, or leave --dialect tf out"));
  }
  return absl::FailedPreconditionError(
      "--dialect tf: not every node of the job was started with it, so not every worker has a "
      "port: type the same on all nodes");
}

void AppendSlurm(const Assignment& assignment, const Place& place, const EnvBase& base,
                 const std::string& hostname, uint32_t threads, std::vector<EnvVar>& out) {
  const auto add = [&out](absl::string_view name, std::string value) {
    out.push_back({std::string(name), std::move(value), std::string(kSlurmTask)});
  };
  add("SLURM_PROCID", absl::StrCat(place.rank));
  add("SLURM_LOCALID", absl::StrCat(place.local_rank));
  add("SLURM_NODEID", absl::StrCat(place.node_rank));
  add("SLURM_NTASKS", absl::StrCat(place.world_size));
  add("SLURM_NPROCS", absl::StrCat(place.world_size));
  add("SLURM_STEP_NUM_TASKS", absl::StrCat(place.world_size));
  add("SLURM_NNODES", absl::StrCat(place.nodes));
  add("SLURM_JOB_NUM_NODES", absl::StrCat(place.nodes));
  add("SLURM_STEP_NUM_NODES", absl::StrCat(place.nodes));
  if (assignment.layout.size() == 1) {  // Slurm has this name only for equal nodes
    add("SLURM_NTASKS_PER_NODE", absl::StrCat(place.local_size));
  }
  add("SLURM_TASKS_PER_NODE", LayoutText(assignment.layout));
  add("SLURM_STEP_TASKS_PER_NODE", LayoutText(assignment.layout));
  if (!base.slurm_nodelist.empty()) {
    add("SLURM_STEP_NODELIST", base.slurm_nodelist);
  } else if (place.nodes == 1 && !hostname.empty()) {
    add("SLURM_STEP_NODELIST", hostname);
  }
  if (base.slurm_cpus_per_task) {
    add("SLURM_CPUS_PER_TASK", absl::StrCat(threads));
  }
  std::string ranks;
  for (uint32_t i = 0; i < place.local_size; ++i) {
    absl::StrAppend(&ranks, i == 0 ? "" : ",", assignment.RankOf(LocalRank{i}).value);
  }
  add("SLURM_GTIDS", std::move(ranks));
}

}  // namespace muster
