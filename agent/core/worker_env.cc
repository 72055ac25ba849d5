#include "agent/core/worker_env.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/core/cpu_count.h"
#include "agent/core/dialects.h"
#include "proto/base/env_names.h"
#include "proto/base/passed_signals.h"
#include "proto/base/text.h"
#include "proto/base/worker_link.h"

namespace muster {
namespace {

class VariableList {
 public:
  explicit VariableList(const EnvBase& base) : base_(base) { out_.reserve(64); }

  void Ours(absl::string_view name, std::string value, absl::string_view why) {
    out_.push_back({std::string(name), std::move(value), std::string(why)});
  }
  // W2
  void UnlessUserSet(absl::string_view name, std::string value, absl::string_view why) {
    if (!UserMinds(name)) {
      Ours(name, std::move(value), why);
    }
  }
  // It is set, or was taken out on purpose.
  bool UserMinds(absl::string_view name) const {
    return base_.Find(name) != nullptr ||
           (!base_.unset.empty() && base_.unset.count(std::string(name)) != 0);
  }
  std::vector<EnvVar>& list() { return out_; }

 private:
  const EnvBase& base_;  // outlives the list: both live within WorkerVariables()
  std::vector<EnvVar> out_;
};

void AppendTorch(const WorkerEnvInput& input, const Place& place, VariableList& list) {
  list.Ours("RANK", absl::StrCat(place.rank), "place of this worker in the job");
  if (input.plan.virtual_local_rank) {
    list.Ours("LOCAL_RANK", "0", "--virtual-local-rank: the one GPU it sees is number 0");
  } else {
    list.Ours("LOCAL_RANK", absl::StrCat(place.local_rank), "place of this worker on its node");
  }
  list.Ours("WORLD_SIZE", absl::StrCat(place.world_size), "workers in the job");
  list.Ours("LOCAL_WORLD_SIZE", absl::StrCat(place.local_size), "workers on this node");
  list.Ours("GROUP_RANK", absl::StrCat(place.node_rank), "place of this node in the job");
  list.Ours("GROUP_WORLD_SIZE", absl::StrCat(place.nodes), "nodes in the job");
  list.Ours("ROLE_NAME", input.plan.role, "--role");
  list.Ours("ROLE_RANK", absl::StrCat(place.rank), "RANK: all workers have one role");
  list.Ours("ROLE_WORLD_SIZE", absl::StrCat(place.world_size), "WORLD_SIZE: the same");
}

void AppendStore(const WorkerEnvInput& input, VariableList& list) {
  const Assignment& a = input.assignment;
  list.Ours("MASTER_ADDR", a.master_addr,
            a.one_host || a.nodes == 1
                ? "this machine: the whole job is on it"
                : "address of the node that runs rank 0, reachable from every node");
  list.Ours("MASTER_PORT", absl::StrCat(a.master_port),
            input.store_is_agent ? "the agent's torch store listens there"
                                 : "kept free for rank 0, whose torch store will listen there");
  list.Ours("TORCHELASTIC_USE_AGENT_STORE", input.store_is_agent ? "True" : "False",
            input.store_is_agent ? "every rank is a client of the agent's store"
                                 : "rank 0 hosts the store");
  if (!input.store_is_agent && TorchLacksLibuv(input.torch_version)) {
    list.UnlessUserSet("USE_LIBUV", "0",
                       absl::StrCat("torch ", input.torch_version,
                                    " is built without libuv and makes no store otherwise"));
  }
}

constexpr char kVisibleGpus[] = "CUDA_VISIBLE_DEVICES";

// nullopt: it is not set, and all GPUs are seen.
std::optional<std::vector<std::string>> InheritedGpus(const EnvBase& base) {
  const char* inherited = base.Find(kVisibleGpus);
  if (inherited == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> out = absl::StrSplit(inherited, ',', absl::SkipWhitespace());
  for (std::string& gpu : out) {
    absl::StripAsciiWhitespace(&gpu);
  }
  return out;
}

// torch: the entry of the inherited list at this worker's place; without a list the place itself.
void AppendOwnGpu(const EnvBase& base, const Place& place, VariableList& list) {
  const std::optional<std::vector<std::string>> gpus = InheritedGpus(base);
  list.Ours(kVisibleGpus,
            !gpus.has_value()                 ? absl::StrCat(place.local_rank)
            : place.local_rank < gpus->size() ? (*gpus)[place.local_rank]
                                              : "",
            "--virtual-local-rank: its own GPU only");
}

// --gpu-mode: the worker's own ones. CUDA counts them from 0 then.
void AppendGpus(const WorkerEnvInput& input, const EnvBase& base, const Place& place,
                VariableList& list) {
  const std::vector<std::string> visible = InheritedGpus(base).value_or(std::vector<std::string>());
  std::vector<std::string> own;
  for (const uint32_t gpu : input.share->gpus) {
    const std::string& uuid = input.topology->gpus[gpu].uuid;
    own.push_back(input.plan.binding.gpu_mode == GpuMode::kUuid && !uuid.empty() ? uuid
                  : gpu < visible.size()                                         ? visible[gpu]
                                         : absl::StrCat(gpu));
  }
  if (own.empty()) {  // kOneIfEnough: the scheduler may know more than we see of the node
    const size_t each = std::max(input.plan.binding.gpus_per_worker, 1u);
    if (visible.size() < each * input.assignment.workers) {
      return;
    }
    const auto first = visible.begin() + static_cast<ptrdiff_t>(each * place.local_rank);
    own.assign(first, first + static_cast<ptrdiff_t>(each));
  }
  list.Ours(kVisibleGpus, absl::StrJoin(own, ","),
            input.plan.binding.gpu_mode == GpuMode::kOneIfEnough
                ? "its own GPUs only, as the scheduler's tasks have them"
                : "--gpu-mode: its own GPUs only");
}

void AppendElastic(const WorkerEnvInput& input, VariableList& list) {
  const Assignment& a = input.assignment;
  list.Ours("TORCHELASTIC_RESTART_COUNT", absl::StrCat(a.restart_count),
            "restarts of the whole job so far");
  list.Ours("TORCHELASTIC_MAX_RESTARTS", absl::StrCat(a.restarts_max), "--max-restarts");
  list.Ours("TORCHELASTIC_RUN_ID", input.plan.job_id, "this job's id (--rdzv-id)");
  list.Ours("TORCHELASTIC_ERROR_FILE", input.error_file,
            "an uncaught exception is written there, for the report");
  std::vector<std::string> stop;
  for (const int signo : kStopSignals) {
    stop.push_back(SignalName(signo));
  }
  for (const int signo : input.plan.stop_signals) {
    stop.push_back(SignalName(signo));
  }
  list.Ours("TORCHELASTIC_SIGNALS_TO_HANDLE", absl::StrJoin(stop, ","),
            "what stops the job (--signals-to-handle)");
}

// torch renamed it in 2.2 and warns about the old name from then on.
// Both names where the version is not known: each torch reads its own.
std::vector<std::string> AsyncErrorNames(absl::string_view torch_version) {
  const std::vector<absl::string_view> parts = absl::StrSplit(torch_version, '.');
  int major = 0;
  int minor = 0;
  const bool known =
      parts.size() >= 2 && absl::SimpleAtoi(parts[0], &major) && absl::SimpleAtoi(parts[1], &minor);
  if (!known) {
    return {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"};
  }
  return {std::pair(major, minor) < std::pair(2, 2) ? "NCCL_ASYNC_ERROR_HANDLING"
                                                    : "TORCH_NCCL_ASYNC_ERROR_HANDLING"};
}

// PBS need not keep a job from the CPUs of others.
uint32_t CpusUsable(const NodeFacts& facts, const EnvBase& base) {
  return base.pbs_cpus == 0 ? facts.cpus_usable() : std::min(facts.cpus_usable(), base.pbs_cpus);
}

// Cores where they are a worker's own: a second thread on each adds little to what OpenMP does.
uint32_t ThreadsOnShare(const WorkerShare& share) {
  return share.sharers == 1 ? share.cores : ThreadsPerWorker(share.cpus.Count(), share.sharers);
}

uint32_t Threads(const WorkerEnvInput& input, uint32_t usable) {
  const uint32_t of_node = ThreadsPerWorker(usable, input.assignment.workers);
  if (input.share == nullptr || !input.share->bound) {
    return of_node;
  }
  // A quota holds for all CPUs together.
  const uint32_t on_share = ThreadsOnShare(*input.share);
  return usable < input.facts.cpus_allowed ? std::min(on_share, of_node) : on_share;
}

std::string WhyThreads(const WorkerEnvInput& input, uint32_t usable, uint32_t threads) {
  if (input.share != nullptr && input.share->bound && threads == ThreadsOnShare(*input.share)) {
    return absl::StrCat("CPUs ", input.share->cpus.Text(), " of ", input.facts.hostname,
                        input.share->sharers == 1
                            ? absl::StrCat(": ", Plural(threads, "core", "cores"), " of its own")
                            : absl::StrCat(" for ", input.share->sharers, " workers"));
  }
  return absl::StrCat(Plural(usable, "CPU", "CPUs"), " of ", input.facts.hostname,
                      usable < input.facts.cpus_usable()  ? " (NCPUS)"
                      : usable < input.facts.cpus_allowed ? " (cgroup quota)"
                                                          : "",
                      " for ", Plural(input.assignment.workers, "worker", "workers"));
}

// For a Python that a script starts, or that is the program itself; launch starts its own with -u.
void AppendPython(VariableList& list) {
  list.UnlessUserSet("PYTHONUNBUFFERED", "1",
                     "what Python prints is seen at once, also before a crash");
}

// MKL, OpenBLAS and torch follow OMP_NUM_THREADS where they have no setting of their own.
// OMP_PLACES and OMP_PROC_BIND stay unset: with either, OpenMP ties the first thread to one core,
// and each process that it forks (a DataLoader's) with it; the worker's CPUs bound all of them.
void AppendThreads(const WorkerEnvInput& input, uint32_t usable, uint32_t threads,
                   VariableList& list) {
  list.UnlessUserSet("OMP_NUM_THREADS", absl::StrCat(threads), WhyThreads(input, usable, threads));
  for (const std::string& name : AsyncErrorNames(input.torch_version)) {
    list.UnlessUserSet(name, "1", "as torchrun: a failed NCCL operation ends the worker");
  }
}

bool OnOneMachine(const WorkerEnvInput& input) {
  return input.assignment.nodes < 2 || input.assignment.one_host || input.plan.standalone ||
         input.facts.address_is_loopback;
}

std::string WhyInterface(const NodeFacts& facts) {
  return absl::StrCat("has ", facts.address, ", chosen by ", facts.address_why);
}

// Only where nodes talk over a network; on one machine the libraries' own choice works, also where
// the host name does not resolve.
void AppendInterface(const WorkerEnvInput& input, VariableList& list) {
  const NodeFacts& facts = input.facts;
  if (OnOneMachine(input) || facts.interface.empty()) {
    return;
  }
  const std::string why = WhyInterface(facts);
  list.UnlessUserSet("GLOO_SOCKET_IFNAME", facts.interface, why);
  list.UnlessUserSet("NCCL_SOCKET_IFNAME", absl::StrCat("=", facts.interface), why);
  // An alias label (eth0:1) is a name of the address only; these want the device.
  const std::string device = facts.interface.substr(0, facts.interface.find(':'));
  if (facts.rdma_devices == 0) {  // else UCX would leave InfiniBand unused
    list.UnlessUserSet("UCX_NET_DEVICES", device, why);
  }
  // It would also try those that other nodes cannot reach. With both it has no TCP at all.
  if (input.mpi == MpiMode::kPmix && !list.UserMinds("OMPI_MCA_btl_tcp_if_exclude")) {
    list.UnlessUserSet("OMPI_MCA_btl_tcp_if_include", device, why);
  }
}

void AppendPmi1(const Place& place, bool offered, VariableList& list) {
  list.Ours("PMI_FD", absl::StrCat(kWorkerPmiFd),
            offered
                ? "--mpi auto: an MPICH, or a relative, that the program may run finds its world"
                : "--mpi: the agent serves PMI-1 to MPICH and its relatives");
  list.Ours("PMI_RANK", absl::StrCat(place.rank), "RANK");
  list.Ours("PMI_SIZE", absl::StrCat(place.world_size), "WORLD_SIZE");
  list.Ours("PMI_SPAWNED", "0", "not started by MPI_Comm_spawn");
  list.Ours("MPI_LOCALRANKID", absl::StrCat(place.local_rank), "LOCAL_RANK");
  list.Ours("MPI_LOCALNRANKS", absl::StrCat(place.local_size), "LOCAL_WORLD_SIZE");
  if (offered) {
    list.Ours("JSM_JSRUN_PORT", "1",
              "--mpi auto: Open MPI 4, which is not served, fails: else each worker is a world of "
              "its own");
  }
}

// What libpmix looks for.
void AppendPmix(const WorkerEnvInput& input, uint32_t usable, VariableList& list) {
  constexpr absl::string_view kWhy = "--mpi: of the PMIx server that the agent runs for Open MPI";
  constexpr absl::string_view kFiles = "in a folder that goes with the round, however it ends";
  for (const std::string& variable :
       input.pmix == nullptr ? std::vector<std::string>() : *input.pmix) {
    const size_t equals = variable.find('=');
    if (equals != std::string::npos) {
      list.Ours(variable.substr(0, equals), variable.substr(equals + 1), kWhy);
    }
  }
  list.Ours("JSM_JSRUN_PORT", "1",
            "makes Open MPI 4 look for its PMIx server: else each worker is a world of its own");
  if (input.assignment.workers > usable) {
    list.UnlessUserSet(
        "OMPI_MCA_mpi_yield_when_idle", "1",
        absl::StrCat(Plural(input.assignment.workers, "worker", "workers"), " on ",
                     Plural(usable, "CPU", "CPUs"), ": one that waits gives way, as under mpirun"));
  }
  if (!input.mpi_folder.empty()) {
    list.Ours("OMPI_MCA_orte_tmpdir_base", input.mpi_folder, kFiles);
    list.UnlessUserSet("OMPI_MCA_btl_vader_backing_directory", input.mpi_folder, kFiles);
  }
}

// What horovodrun gives to its gloo controller. Horovod numbers the workers of a host by its name,
// and two nodes may have one name.
void AppendHorovod(const WorkerEnvInput& input, VariableList& list) {
  const Assignment& a = input.assignment;
  list.Ours("HOROVOD_HOSTNAME", absl::StrCat(input.facts.hostname, "-", a.node_rank.value),
            "--dialect horovod: this node, by a name that no other has");
  if (!input.store_is_agent) {
    return;
  }
  constexpr absl::string_view kStore = "--dialect horovod: the agent's store speaks HTTP, too";
  list.Ours("HOROVOD_GLOO_RENDEZVOUS_ADDR", a.master_addr, kStore);
  list.Ours("HOROVOD_GLOO_RENDEZVOUS_PORT", absl::StrCat(a.master_port), kStore);
  if (input.mpi == MpiMode::kNone) {  // else its MPI is the controller, if it was built with one
    list.UnlessUserSet("HOROVOD_CONTROLLER", "gloo", "--dialect horovod");
    list.UnlessUserSet("HOROVOD_CPU_OPERATIONS", "gloo", "--dialect horovod");
  }
  if (OnOneMachine(input)) {
    list.UnlessUserSet("HOROVOD_GLOO_IFACE", "lo", "the whole job is on this machine");
  } else if (!input.facts.interface.empty()) {
    list.UnlessUserSet("HOROVOD_GLOO_IFACE", input.facts.interface, WhyInterface(input.facts));
  }
}

// What the place is called for those that are not served.
void AppendOthers(const WorkerEnvInput& input, const Place& place, uint32_t usable,
                  VariableList& list) {
  std::vector<std::string> dialects = input.plan.dialects;
  if (input.mpi == MpiMode::kPmi1 || input.pmi1_offered) {
    AppendPmi1(place, input.pmi1_offered, list);
    std::erase(dialects, "pmi");
    std::erase(dialects, "mpich");
  } else if (input.mpi == MpiMode::kPmix) {
    AppendPmix(input, usable, list);
    std::erase(dialects, "pmix");
    if (!HasWord(dialects, "ompi")) {
      dialects.emplace_back("ompi");
    }
  }
  AppendDialects(dialects, place, list.list());
  if (HasWord(dialects, kDialectHorovod)) {
    AppendHorovod(input, list);
  }
  if (HasWord(dialects, kDialectTensorFlow)) {
    list.Ours("TF_CONFIG", TensorFlowConfig(input.assignment, place.rank),
              "--dialect tf: a port was kept free for every worker");
  }
}

void AppendMuster(const WorkerEnvInput& input, const Place& place, VariableList& list) {
  list.Ours(kEnvJobId, input.plan.job_id, "this job's id");
  list.Ours(kEnvRound, absl::StrCat(input.assignment.round.Token()),
            "fencing token: only grows within the job");
  list.Ours(kEnvRank, absl::StrCat(place.rank), "RANK");
  list.Ours(kEnvWorldSize, absl::StrCat(place.world_size), "WORLD_SIZE");
  list.Ours(kEnvLocalRank, absl::StrCat(place.local_rank), "LOCAL_RANK");
  list.Ours(kEnvLocalSize, absl::StrCat(place.local_size), "LOCAL_WORLD_SIZE");
  list.Ours(kEnvNodeRank, absl::StrCat(place.node_rank), "GROUP_RANK");
  list.Ours(kEnvNodes, absl::StrCat(place.nodes), "GROUP_WORLD_SIZE");
  list.Ours(kEnvAgentFd, absl::StrCat(kWorkerDoorFd),
            "where the worker SDK meets this node's agent");
  if (input.assignment.IsReplacement(input.local)) {
    list.Ours(kEnvReplacement, "1", "--restart=one: in place of a worker that failed");
  }
}

}  // namespace

absl::Status CheckOwnGpu(const WorkPlan& plan, LocalRank local, const EnvBase& base) {
  const std::optional<std::vector<std::string>> gpus = InheritedGpus(base);
  if (!plan.virtual_local_rank || !gpus.has_value() || local.value < gpus->size() ||
      (gpus->empty() && local.value == 0)) {  // one without GPUs
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--virtual-local-rank gives each worker a GPU of its own, and ", kVisibleGpus,
                   "=", absl::StrJoin(*gpus, ","), " names ", Plural(gpus->size(), "GPU", "GPUs"),
                   ": none is left for local rank ", local.value,
                   "; run fewer workers on this node, or leave the option out"));
}

std::string PinNotice(const EnvBase& base, uint32_t workers, bool share_cpus) {
  const auto value = [&base](const char* name) {
    const char* found = base.Find(name);
    return absl::AsciiStrToLower(found == nullptr ? "" : found);
  };
  const auto says = [](absl::string_view text, std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [text](const char* word) { return absl::StrContains(text, word); });
  };
  // What keeps to the CPUs that a worker has is no matter while no other has them.
  const std::string kmp = value("KMP_AFFINITY");
  const std::string bind = value("OMP_PROC_BIND");
  const char* tied = !value("GOMP_CPU_AFFINITY").empty()                ? "GOMP_CPU_AFFINITY"
                     : says(kmp, {"explicit", "proclist", "norespect"}) ? "KMP_AFFINITY"
                     : says(value("OMP_PLACES"), {"{"})                 ? "OMP_PLACES"
                     : !share_cpus                                      ? nullptr
                     : says(kmp, {"compact", "scatter", "balanced"})    ? "KMP_AFFINITY"
                     : !bind.empty() && bind != "false"                 ? "OMP_PROC_BIND"
                                                                        : nullptr;
  if (workers < 2 || tied == nullptr) {
    return "";
  }
  return absl::StrCat(tied, "=", base.Find(tied), " ties the threads of all ", workers,
                      " workers to the same CPUs, whatever CPUs each has: unset it");
}

const std::vector<std::string>& TuningNames() {
  static const std::vector<std::string> names = {"OMP_NUM_THREADS",
                                                 "PYTHONUNBUFFERED",
                                                 "TORCH_NCCL_ASYNC_ERROR_HANDLING",
                                                 "NCCL_ASYNC_ERROR_HANDLING",
                                                 "GLOO_SOCKET_IFNAME",
                                                 "NCCL_SOCKET_IFNAME",
                                                 "UCX_NET_DEVICES",
                                                 "OMPI_MCA_btl_tcp_if_include",
                                                 "OMPI_MCA_btl_vader_backing_directory",
                                                 "OMPI_MCA_mpi_yield_when_idle",
                                                 "HOROVOD_CONTROLLER",
                                                 "HOROVOD_CPU_OPERATIONS",
                                                 "HOROVOD_GLOO_IFACE",
                                                 "USE_LIBUV"};
  return names;
}

std::vector<EnvVar> WorkerVariables(const WorkerEnvInput& input, const EnvBase& base) {
  const Place place = PlaceOf(input.assignment, input.local);
  const uint32_t usable = CpusUsable(input.facts, base);
  const uint32_t threads = Threads(input, usable);
  VariableList list(base);
  AppendTorch(input, place, list);
  AppendStore(input, list);
  if (input.plan.virtual_local_rank) {
    AppendOwnGpu(base, place, list);
  }
  if (input.share != nullptr && input.plan.binding.gpu_mode != GpuMode::kAll) {
    AppendGpus(input, base, place, list);
  }
  AppendElastic(input, list);
  AppendThreads(input, usable, threads, list);
  AppendPython(list);
  AppendInterface(input, list);
  if (base.slurm == SlurmMode::kRewrite) {
    AppendSlurm(input.assignment, place, base, input.facts.hostname, threads, list.list());
  }
  AppendOthers(input, place, usable, list);
  AppendMuster(input, place, list);
  return std::move(list.list());
}

}  // namespace muster
