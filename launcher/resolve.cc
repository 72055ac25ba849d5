#include "launcher/resolve.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/core/dialects.h"
#include "launcher/contradictions.h"
#include "launcher/meeting_notes.h"
#include "launcher/named_ranks.h"
#include "launcher/node_overrides.h"
#include "launcher/options.h"
#include "launcher/own_names.h"
#include "launcher/placement.h"
#include "launcher/programs.h"
#include "launcher/scheduler.h"
#include "launcher/ship_places.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr uint16_t kMasterPort = 29500;  // torchrun's default in the static form

absl::Status CheckDetached(JobSpec& spec) {
  for (const OptionId id : {OptionId::kName, OptionId::kJobLog}) {
    if (spec.Has(id) && !spec.detach) {
      spec.notes.push_back(absl::StrCat(spec.Said(id), " has no effect without --detach"));
    }
  }
  if (spec.Has(OptionId::kStdin) && spec.detach && spec.plan.stdin_mode != StdinMode::kNone) {
    spec.notes.push_back(
        absl::StrCat(spec.Said(OptionId::kStdin), " has no effect: a detached job has no stdin"));
  }
  if (spec.detach && spec.slurm.has_value() && spec.slurm->in_step) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--detach: srun has started launch, and what a step has started ends with it: leave srun "
        "out, or --detach (srun ... & goes on beside the script of ",
        spec.slurm->name, ")"));
  }
  // It outlives what it was typed in, and the scheduler's own job does not.
  if (spec.detach && (spec.slurm.has_value() || spec.pbs.has_value())) {
    spec.notes.push_back(absl::StrCat(
        "--detach: ", spec.slurm.has_value() ? spec.slurm->name : spec.pbs->name,
        " ends with its script or shell, and this job with it: keep that open (launch attach ",
        "shows the output, and ends when the job does)"));
  }
  return absl::OkStatus();
}

// As mpirun has it: so many for each object are the workers of a node, where nothing else says how
// many these are.
void CountByObjects(JobSpec& spec) {
  const bool counted = spec.Has(OptionId::kNprocPerNode) || spec.Has(OptionId::kRankfile) ||
                       spec.total || spec.per_node || !spec.further.empty();
  if (spec.plan.binding.workers_per_object > 0 && !counted) {
    spec.plan.workers_wanted = WorkersWanted::kObjects;
  }
}

absl::Status CheckCounts(const JobSpec& spec) {
  const bool number = spec.plan.workers_wanted == WorkersWanted::kNumber;
  if (spec.per_node && spec.Has(OptionId::kNprocPerNode) &&
      (!number || *spec.per_node != spec.plan.workers)) {
    return Contradiction(spec, OptionId::kPpn, OptionId::kNprocPerNode,
                         "both say how many workers a node runs");
  }
  if (spec.total && !number) {
    return Contradiction(spec, OptionId::kTotal, OptionId::kNprocPerNode,
                         "the number of workers is fixed by one and found out by the other");
  }
  if (spec.total && spec.nodes_min != spec.nodes_max) {
    return Contradiction(
        spec, OptionId::kTotal, OptionId::kNnodes,
        "with a varying number of nodes only --nproc-per-node says what each runs");
  }
  return absl::OkStatus();
}

// What contradicts that this node serves.
absl::Status CheckServing(const JobSpec& spec) {
  const RendezvousSpec& r = spec.rendezvous;
  if (!r.others.empty() && (spec.serve || r.is_host == true)) {
    return Contradiction(spec, spec.serve ? OptionId::kServe : OptionId::kRdzvConf,
                         OptionId::kRdzvEndpoint,
                         "several addresses are those of muster-rendezvous daemons, one of which "
                         "leads; no node serves");
  }
  if (spec.serve && r.is_host == false) {
    return Contradiction(spec, OptionId::kServe, OptionId::kRdzvConf,
                         "is_host=0 says that this node does not serve");
  }
  return absl::OkStatus();
}

// As torchrun: standalone wins over what is said of a meeting place.
void SettleStandalone(JobSpec& spec) {
  for (const OptionId id : {OptionId::kRdzvEndpoint, OptionId::kMasterAddr, OptionId::kNodeRank}) {
    if (spec.Has(id)) {
      spec.notes.push_back(absl::StrCat(spec.Said(id), " is not used: --standalone was given"));
    }
  }
  spec.rendezvous.host.clear();
  spec.rendezvous.others.clear();
  spec.rendezvous.file.clear();
  spec.rendezvous.port = 0;
  spec.master_addr.clear();
  spec.node_rank.reset();
}

// torchrun's static form said with an endpoint instead of --master-addr and --master-port.
bool SaysStatic(const JobSpec& spec) {
  const auto said = spec.given.find(OptionId::kRdzvBackend);
  return said != spec.given.end() && said->second.value == "static" &&
         spec.Has(OptionId::kRdzvEndpoint) && !spec.rendezvous.host.empty() &&
         spec.rendezvous.others.empty();
}

// As torchrun, whose nodes have ranks in its static form only: what an image or an operator sets
// for every container says no place then.
void SettleNodeRank(JobSpec& spec) {
  const auto rank = spec.given.find(OptionId::kNodeRank);
  const auto backend = spec.given.find(OptionId::kRdzvBackend);
  if (rank == spec.given.end() || !rank->second.by_environment || backend == spec.given.end() ||
      backend->second.value == "static" || !spec.Has(OptionId::kRdzvEndpoint)) {
    return;
  }
  spec.notes.push_back(absl::StrCat(spec.Said(OptionId::kNodeRank),
                                    " is not used: it has no meaning with ",
                                    spec.Said(OptionId::kRdzvBackend), ", as with torchrun"));
  spec.node_rank.reset();
}

absl::Status CheckNodeRank(const JobSpec& spec) {
  const uint32_t places = spec.nodes_max + spec.spares.value_or(0);
  if (spec.node_rank && *spec.node_rank >= places) {
    const std::string said =
        spec.pod.has_value() && !spec.Has(OptionId::kNodeRank)
            ? absl::StrCat("JOB_COMPLETION_INDEX=", spec.pod->index, " (the Job's `completions`)")
            : spec.Said(OptionId::kNodeRank);
    return absl::InvalidArgumentError(absl::StrCat(
        said, ": want 0..", places - 1, " with ",
        spec.Has(OptionId::kNnodes) ? spec.Said(OptionId::kNnodes) : "one node (no --nnodes)"));
  }
  return absl::OkStatus();
}

// torchrun's words about where the nodes meet, brought into one form.
absl::Status SettleRendezvous(JobSpec& spec) {
  RendezvousSpec& r = spec.rendezvous;
  bool endpoint = !r.host.empty() || !r.file.empty();
  SettleNodeRank(spec);
  const bool serves_here = spec.serve && spec.node_rank.has_value() && !r.host.empty();
  if (!spec.journal.empty() && serves_here && spec.nodes_max == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.Said(OptionId::kJournal), ": one node has no other that would go on ",
                     "without this launch: leave it out, or give --nnodes 2 or more (1:2, say)"));
  }
  if (!spec.journal.empty() && (!serves_here || spec.nodes_max == 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.Said(OptionId::kJournal), ": want --nnodes, --serve, --node-rank and --rdzv-endpoint ",
        "HOST:PORT, too: the nodes look there for the launch that follows, and it for its agent; ",
        "or the nodes of a Slurm job"));
  }
  if (spec.Has(OptionId::kStandalone)) {
    SettleStandalone(spec);
    return absl::OkStatus();
  }
  if (!r.file.empty()) {
    for (const OptionId id : {OptionId::kServe, OptionId::kSecretFile, OptionId::kInsecure}) {
      if (spec.Has(id)) {
        spec.notes.push_back(absl::StrCat(spec.Said(id),
                                          " is not used: ", spec.Said(OptionId::kRdzvEndpoint),
                                          " elects who serves, and carries the secret"));
      }
    }
  }
  if (endpoint && spec.Has(OptionId::kMasterAddr)) {
    spec.notes.push_back(absl::StrCat(spec.Said(OptionId::kMasterAddr),
                                      " is not used: ", spec.Said(OptionId::kRdzvEndpoint),
                                      " says where the nodes meet"));
    spec.master_addr.clear();
  }
  RETURN_IF_ERROR(CheckNodeRank(spec));
  if (spec.nodes_max == 1) {
    return absl::OkStatus();
  }
  if (!endpoint && !spec.master_addr.empty() && !NamesHosts(spec)) {
    r.is_static = true;
    r.host = spec.master_addr;
    r.port = spec.master_port.value_or(kMasterPort);
    spec.master_port = r.port;
    endpoint = true;
  } else if (SaysStatic(spec)) {
    r.is_static = true;
    spec.master_port = r.port;
  }
  if (endpoint && r.file.empty() && r.port == 0) {
    const OptionId id =
        spec.Has(OptionId::kRdzvEndpoint) ? OptionId::kRdzvEndpoint : OptionId::kMasterPort;
    return absl::InvalidArgumentError(
        absl::StrCat(spec.Said(id), ": with ", spec.Said(OptionId::kNnodes),
                     " the port must be a number that every node knows"));
  }
  const bool serves = spec.serve || r.is_host == true;
  if (endpoint && !serves && (r.host == "0.0.0.0" || r.host == "::")) {
    const OptionId id =
        spec.Has(OptionId::kRdzvEndpoint) ? OptionId::kRdzvEndpoint : OptionId::kMasterAddr;
    return absl::InvalidArgumentError(
        absl::StrCat(spec.Said(id), ": ", r.host, " stands for every address of one machine: give ",
                     "the name or address by which all nodes find the one that serves"));
  }
  if (!endpoint && spec.node_rank.value_or(0) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.Said(OptionId::kNodeRank),
                     ": say also where node 0 is, with --master-addr or --rdzv-endpoint"));
  }
  return CheckServing(spec);
}

// Of a variable that a site sets for all jobs nothing is said.
void NoteFingerprint(JobSpec& spec) {
  const bool daemon = spec.way == StartWay::kTyped && spec.rendezvous.file.empty() && !spec.serve;
  if (!daemon && spec.Has(OptionId::kRdzvFingerprint) &&
      !spec.given.at(OptionId::kRdzvFingerprint).by_environment) {
    spec.notes.push_back(absl::StrCat(spec.Said(OptionId::kRdzvFingerprint),
                                      " has no effect: this launch asks no daemon"));
  }
}

// Who puts launch in front of the command that it replaces: each worker would start a job. One on
// each node may be meant so.
void NoteNestedLauncher(JobSpec& spec) {
  constexpr absl::string_view kLaunchers[] = {
      "mpirun",  "mpirun.openmpi", "mpiexec", "mpiexec.openmpi", "mpiexec.mpich", "mpiexec.hydra",
      "orterun", "prterun",        "srun",    "torchrun",        "horovodrun",    "deepspeed"};
  const absl::string_view program = spec.program;
  const absl::string_view name = program.substr(program.rfind('/') + 1);
  uint32_t workers = spec.plan.workers;
  for (const NodeWorkers& node : spec.nodes) {
    workers = std::max(workers, node.workers);
  }
  const bool is_launcher =
      std::find(std::begin(kLaunchers), std::end(kLaunchers), name) != std::end(kLaunchers);
  if (workers > 1 && is_launcher) {
    spec.notes.push_back(absl::StrCat(
        name, " is a launcher, too, and ", workers,
        " workers on a node start one each: leave it out, and launch makes the program's processes "
        "the ranks; or start one on each node: --nproc-per-node 1"));
  }
}

// Horovod's ranks meet at the agent's store, whatever torch the program may load.
absl::Status SettleStore(JobSpec& spec) {
  if (HasWord(spec.plan.dialects, kDialectTensorFlow) && spec.restart == RestartMode::kOne) {
    return Contradiction(spec, OptionId::kDialect, OptionId::kRestart,
                         "a cluster of TensorFlow takes no worker in the place of another; all "
                         "start again with --restart=all");
  }
  if (!HasWord(spec.plan.dialects, kDialectHorovod)) {
    return absl::OkStatus();
  }
  if (spec.plan.store == StoreMode::kWorker) {
    return Contradiction(spec, OptionId::kStore, OptionId::kDialect,
                         "Horovod's ranks meet at the agent's store");
  }
  spec.plan.store = StoreMode::kAgent;
  return absl::OkStatus();
}

void SettleOutput(JobSpec& spec) {
  OutputOptions& output = spec.plan.output;
  if (!output.log_dir.empty()) {
    return;
  }
  if (output.redirects.Any()) {
    output.log_dir = "muster-logs";
    spec.notes.push_back(absl::StrCat(spec.Said(OptionId::kRedirects),
                                      " without --log-dir: files go to ./muster-logs"));
  } else if (output.tee.Any() && !spec.Has(OptionId::kOutputFilename)) {
    output.tee = StreamSelect();
    spec.notes.push_back(absl::StrCat(
        spec.Said(OptionId::kTee), " without --log-dir: output is shown here, no file is written"));
  }
  if (output.log_dir.empty()) {
    for (const OptionId id : {OptionId::kLogLayout, OptionId::kDuplicateStdoutFilters,
                              OptionId::kDuplicateStderrFilters}) {
      if (spec.Has(id)) {
        spec.notes.push_back(absl::StrCat(spec.Said(id), " has no effect without --log-dir"));
      }
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> WorkersByNode(const JobSpec& spec) {
  const uint32_t nodes = spec.nodes_max;
  const bool exact = spec.Has(OptionId::kNprocPerNode);
  const std::string on = spec.Has(OptionId::kNnodes) ? spec.Said(OptionId::kNnodes)
                                                     : "one node (no --nnodes, no --hosts)";
  if (!spec.total) {
    return std::vector<uint32_t>(nodes, spec.per_node.value_or(spec.plan.workers));
  }
  const uint32_t n = *spec.total;
  if (n < nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat(TotalSaid(spec), " is less than one worker a node: ", on));
  }
  if (exact && uint64_t{nodes} * spec.plan.workers != n) {
    return absl::InvalidArgumentError(absl::StrCat(
        TotalSaid(spec), " and ", spec.Said(OptionId::kNprocPerNode), " disagree: ", on, " makes ",
        uint64_t{nodes} * spec.plan.workers, " workers; give one of the two"));
  }
  if (spec.per_node && !exact) {
    const uint64_t room = uint64_t{nodes} * *spec.per_node;
    if (n > room || n <= room - *spec.per_node) {
      return absl::InvalidArgumentError(
          absl::StrCat(TotalSaid(spec), " with ", spec.Said(OptionId::kPpn), " takes ",
                       Plural((n - 1) / *spec.per_node + 1, "node", "nodes"), ", but there is ", on,
                       ": say --nnodes, with --hosts or --standalone"));
    }
    std::vector<uint32_t> counts(nodes, *spec.per_node);
    counts.back() -= static_cast<uint32_t>(room - n);
    return counts;
  }
  const std::vector<uint32_t> counts = SpreadEvenly(n, nodes);
  if (counts[0] > kWorkersPerNodeMax) {
    return absl::InvalidArgumentError(absl::StrCat(TotalSaid(spec), ": want at most ",
                                                   kWorkersPerNodeMax, " workers on a node, got ",
                                                   counts[0]));
  }
  return counts;
}

namespace {

absl::Status CountOwn(JobSpec& spec) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> counts, WorkersByNode(spec));
  if (const uint64_t world = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
      world > kWorldSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat(spec.Said(OptionId::kNnodes), ": want at most ",
                                                   kWorldSizeMax, " workers in a job, got ",
                                                   world));
  }
  const uint32_t spares = spec.spares.value_or(0);
  if (spares > 0 && spec.way == StartWay::kLocal) {
    return absl::InvalidArgumentError(absl::StrCat(spec.Said(OptionId::kSpares),
                                                   ": nobody can wait beside one node: say ",
                                                   "--hosts with more of them, or --nnodes"));
  }
  if (spec.way == StartWay::kLocal || spec.way == StartWay::kStandalone) {
    for (const uint32_t count : counts) {
      spec.nodes.push_back({HostEntry{}, spec.plan.workers_wanted, count});
    }
    spec.nodes.resize(spec.nodes.size() + spares, spec.nodes.front());
  }
  if (counts.front() != counts.back() && !spec.node_rank && spec.nodes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        TotalSaid(spec), " cannot be shared out evenly over ", spec.Said(OptionId::kNnodes),
        ": say --node-rank on every node, or --nproc-per-node"));
  }
  const size_t own = spec.nodes.empty() ? spec.node_rank.value_or(0) : 0;
  spec.plan.workers = counts[std::min(own, counts.size() - 1)];
  return absl::OkStatus();
}

// The rank that has the terminal, and its debugger.
absl::Status SettleTerminal(JobSpec& spec) {
  if (!spec.plan.pty.has_value()) {
    return absl::OkStatus();
  }
  const uint32_t rank = spec.plan.pty->rank;
  const std::string said = spec.Said(spec.debugger.empty() ? OptionId::kPty : OptionId::kGdb);
  if (spec.way == StartWay::kTyped || spec.way == StartWay::kServe) {
    return absl::InvalidArgumentError(absl::StrCat(
        said, ": the rank may be on another node than this terminal where the command is typed on ",
        "every node: let launch start the nodes (--hosts)"));
  }
  if (const uint64_t world = WorldOf(spec); world > 0 && rank >= world) {
    return NoSuchRank(said, rank, world);
  }
  if (!spec.debugger.empty()) {
    spec.plan.wraps.push_back({{rank}, spec.debugger});
  }
  return absl::OkStatus();
}

// Where each node is typed, or stands for itself, its ranks follow those of the node before it.
absl::Status CheckOwnRankOrder(const JobSpec& spec) {
  if (spec.rank_order != RankOrder::kInTurn || spec.nodes_max == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      spec.Said(OptionId::kMapBy), ": ranks are dealt out in turn to hosts that launch ",
      "starts: say --hosts or --hostfile, too, or leave it out"));
}

StartWay WayOf(const JobSpec& spec) {
  if (NamesHosts(spec)) {
    return StartWay::kHosts;
  }
  if (spec.nodes_max == 1) {
    return StartWay::kLocal;  // whatever the endpoint: nobody else can join
  }
  if (spec.plan.standalone) {
    return StartWay::kStandalone;
  }
  return spec.rendezvous.host.empty() && spec.rendezvous.file.empty() ? StartWay::kServe
                                                                      : StartWay::kTyped;
}

}  // namespace

absl::Status ResolveHosts(JobSpec& spec, const FileReader& read_file,
                          const Environment& environment) {
  RETURN_IF_ERROR(CheckPairs(spec));
  CountByObjects(spec);
  RETURN_IF_ERROR(TakeScheduler(spec, read_file, environment));
  RETURN_IF_ERROR(CheckDetached(spec));
  RETURN_IF_ERROR(CountPrograms(spec));
  RETURN_IF_ERROR(CheckCounts(spec));
  RETURN_IF_ERROR(SettleRendezvous(spec));
  RETURN_IF_ERROR(SettleStore(spec));
  SettleOutput(spec);
  spec.plan.job_id = spec.rendezvous.id;
  spec.way = WayOf(spec);
  NoteFingerprint(spec);
  NoteUnknownConf(spec);
  NoteUnusedAlone(spec);
  NoteOwnNames(spec, environment);
  if (spec.way != StartWay::kHosts) {
    if (spec.Has(OptionId::kExclude)) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.Said(OptionId::kExclude),
                       ": there is no list of hosts to take it from: say --hosts "
                       "or --hostfile, too"));
    }
    RETURN_IF_ERROR(CheckOwnRankOrder(spec));
    RETURN_IF_ERROR(CountOwn(spec));
    RETURN_IF_ERROR(SettleNodeOverrides(spec));
    RETURN_IF_ERROR(SettleShip(spec));
    RETURN_IF_ERROR(CheckRanks(spec));
    NoteNestedLauncher(spec);
    if (!spec.rendezvous.step.empty() && spec.node_rank.value_or(0) > 0) {
      spec.notes.clear();  // the first node says them
    }
    return SettleTerminal(spec);
  }
  RETURN_IF_ERROR(PlaceOnHosts(spec, read_file));
  NoteBesideJob(spec, environment);
  SettleTasks(spec);
  RETURN_IF_ERROR(SettleNodeOverrides(spec));
  spec.plan.workers_wanted = spec.nodes.front().wanted;
  spec.plan.workers = spec.nodes.front().workers;
  RETURN_IF_ERROR(SettleShip(spec));
  RETURN_IF_ERROR(CheckRanks(spec));
  NoteNestedLauncher(spec);
  return SettleTerminal(spec);
}

}  // namespace muster
