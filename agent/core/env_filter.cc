#include "agent/core/env_filter.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/env_names.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// A name, or with `prefix` everything that begins with it.
struct Rule {
  absl::string_view name;
  bool prefix;
  absl::string_view why;
};

constexpr absl::string_view kTorch = "identity given by an outer torch launcher";
constexpr absl::string_view kMpi = "identity given by an outer MPI launcher";
constexpr absl::string_view kPmi =
    "an outer launcher's process manager, which does not know our workers";
constexpr absl::string_view kFlux = "identity given by an outer Flux";
constexpr absl::string_view kHorovod = "identity given by an outer Horovod launcher";
constexpr absl::string_view kJsm = "identity given by an outer jsrun";
constexpr absl::string_view kDeepSpeed = "identity given by an outer DeepSpeed launcher";

// What says who a process is.
constexpr Rule kIdentity[] = {
    {"RANK", false, kTorch},
    {"LOCAL_RANK", false, kTorch},
    {"WORLD_SIZE", false, kTorch},
    {"LOCAL_WORLD_SIZE", false, kTorch},
    {"GROUP_RANK", false, kTorch},
    {"GROUP_WORLD_SIZE", false, kTorch},
    {"ROLE_NAME", false, kTorch},
    {"ROLE_RANK", false, kTorch},
    {"ROLE_WORLD_SIZE", false, kTorch},
    {"NODE_RANK", false, kTorch},
    {"MASTER_ADDR", false, kTorch},
    {"MASTER_PORT", false, kTorch},
    {"TORCHELASTIC_", true, kTorch},
    {"PMI_", true, kPmi},
    {"PMIX_", true, kPmi},
    {"PRTE_", true, kPmi},
    {"PALS_", true, kPmi},
    {"HYDI_CONTROL_FD", false, kPmi},
    {"OMPI_COMM_WORLD_", true, kMpi},
    {"OMPI_UNIVERSE_SIZE", false, kMpi},
    {"OMPI_MCA_orte_", true, kMpi},
    {"OMPI_MCA_ess", true, kMpi},
    {"OMPI_NUM_APP_CTX", false, kMpi},
    {"OMPI_APP_CTX_NUM_PROCS", false, kMpi},
    {"OMPI_FIRST_RANKS", false, kMpi},
    {"OMPI_COMMAND", false, kMpi},
    {"OMPI_ARGV", false, kMpi},
    {"OMPI_FILE_LOCATION", false, kMpi},
    {"MPI_LOCAL", true, kMpi},
    {"MV2_COMM_WORLD_", true, kMpi},
    {"JSM_NAMESPACE_", true, kJsm},
    {"JSM_JSRUN_PORT", false, kJsm},
    {"FLUX_TASK_", true, kFlux},
    {"FLUX_JOB_SIZE", false, kFlux},
    {"FLUX_JOB_NNODES", false, kFlux},
    {"HOROVOD_RANK", false, kHorovod},
    {"HOROVOD_SIZE", false, kHorovod},
    {"HOROVOD_LOCAL_", true, kHorovod},
    {"HOROVOD_CROSS_", true, kHorovod},
    {"HOROVOD_HOSTNAME", false, kHorovod},
    {"HOROVOD_ELASTIC", false, kHorovod},
    {"HOROVOD_GLOO_RENDEZVOUS_", true, kHorovod},
    {"LOCAL_SIZE", false, kDeepSpeed},
    {"CROSS_RANK", false, kDeepSpeed},
    {"CROSS_SIZE", false, kDeepSpeed},
    {"TF_CONFIG", false, "a cluster description that names other processes"},
};

// Our own, from an outer job. Pointers, as a string_view of an array is no constant under UBSan.
constexpr const char* kOurNames[] = {kEnvJobId,     kEnvRound,     kEnvRank,
                                     kEnvWorldSize, kEnvLocalRank, kEnvLocalSize,
                                     kEnvNodeRank,  kEnvNodes,     kEnvReplacement};

// Of a Slurm task; section 23.3. What of these a worker gets is set for it.
constexpr absl::string_view kSlurmWhy = "describes the task that runs the agent, not a worker";
constexpr Rule kSlurmTask[] = {
    {"SLURM_PROCID", false, kSlurmWhy},
    {"SLURM_LOCALID", false, kSlurmWhy},
    {"SLURM_NODEID", false, kSlurmWhy},
    {"SLURM_NTASKS", false, kSlurmWhy},
    {"SLURM_NPROCS", false, kSlurmWhy},
    {"SLURM_NTASKS_PER_NODE", false, kSlurmWhy},
    {"SLURM_TASKS_PER_NODE", false, kSlurmWhy},
    {"SLURM_STEP_NUM_TASKS", false, kSlurmWhy},
    {"SLURM_STEP_TASKS_PER_NODE", false, kSlurmWhy},
    {"SLURM_STEP_NODELIST", false, kSlurmWhy},
    {"SLURM_STEP_NUM_NODES", false, kSlurmWhy},
    {"SLURM_NNODES", false, kSlurmWhy},
    {"SLURM_JOB_NUM_NODES", false, kSlurmWhy},
    {"SLURM_CPUS_PER_TASK", false, kSlurmWhy},
    {"SLURM_GTIDS", false, kSlurmWhy},
    {"SLURM_TASK_PID", false, kSlurmWhy},
    {"SLURM_CPU_BIND", true, kSlurmWhy},
    {"SLURM_SRUN_COMM_", true, kSlurmWhy},
};

template <size_t n>
absl::string_view Match(const Rule (&rules)[n], absl::string_view name) {
  for (const Rule& rule : rules) {
    if (rule.prefix ? absl::StartsWith(name, rule.name) : name == rule.name) {
      return rule.why;
    }
  }
  return "";
}

// What --env-none leaves: without these a program is not found, or not at home.
constexpr Rule kLogin[] = {
    {"HOME", false, "login"}, {"LD_LIBRARY_PATH", false, "login"}, {"LOGNAME", false, "login"},
    {"PATH", false, "login"}, {"SHELL", false, "login"},           {"TMPDIR", false, "login"},
    {"USER", false, "login"},
};

SlurmMode SlurmModeOf(const WorkPlan& plan, bool under_slurm) {
  if (HasWord(plan.dialects, "slurm-scrub")) {
    return SlurmMode::kScrub;
  }
  if (HasWord(plan.dialects, "slurm-keep")) {
    return SlurmMode::kKeep;
  }
  const bool asked = HasWord(plan.dialects, "slurm");
  return asked || under_slurm ? SlurmMode::kRewrite : SlurmMode::kNone;
}

absl::string_view SlurmReason(SlurmMode mode, absl::string_view name) {
  if (!absl::StartsWith(name, "SLURM_") || mode == SlurmMode::kKeep) {
    return "";
  }
  return mode == SlurmMode::kScrub ? "--dialect slurm-scrub" : Match(kSlurmTask, name);
}

std::string ValueOf(absl::string_view entry) {
  const absl::string_view name = NameOf(entry);
  return std::string(name.size() == entry.size() ? "" : entry.substr(name.size() + 1));
}

bool ByName(const std::string& a, const std::string& b) { return NameOf(a) < NameOf(b); }

// Sorts by name and keeps the first of equal names (E3).
void SortUnique(std::vector<std::string>& entries) {
  std::stable_sort(entries.begin(), entries.end(), ByName);
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const std::string& a, const std::string& b) {
                              return NameOf(a) == NameOf(b);
                            }),
                entries.end());
}

// Of sorted entries: the one of this name, or entries.size().
size_t IndexOf(const std::vector<std::string>& entries, absl::string_view name) {
  const auto it = std::lower_bound(
      entries.begin(), entries.end(), name,
      [](const std::string& entry, absl::string_view wanted) { return NameOf(entry) < wanted; });
  return it == entries.end() || NameOf(*it) != name ? entries.size()
                                                    : static_cast<size_t>(it - entries.begin());
}

// Both sorted and unique: the entries of both, `over` where a name is in both.
std::vector<std::string> Overlay(std::vector<std::string> under, std::vector<std::string> over) {
  std::vector<std::string> out;
  out.reserve(under.size() + over.size());
  std::set_union(std::make_move_iterator(over.begin()), std::make_move_iterator(over.end()),
                 std::make_move_iterator(under.begin()), std::make_move_iterator(under.end()),
                 std::back_inserter(out), ByName);
  return out;
}

// Moves the entries to `removed` for which `reason` has one.
template <typename Reason>
void Remove(EnvBase& base, const Reason& reason) {
  std::erase_if(base.entries, [&](const std::string& entry) {
    const absl::string_view name = NameOf(entry);
    const absl::string_view why = reason(name);
    if (!why.empty()) {
      base.removed.push_back({std::string(name), ValueOf(entry), std::string(why)});
    }
    return !why.empty();
  });
}

// PBS says OMP_NUM_THREADS = NCPUS, the CPUs of the job's first chunk, as if one process had them
// all. Another number is somebody's wish (ompthreads), and stays.
void TakeBackThreads(EnvBase& base) {
  const char* cpus = base.Find("NCPUS");
  const char* threads = base.Find("OMP_NUM_THREADS");
  uint32_t number = 0;
  if (base.Find("PBS_JOBID") == nullptr || cpus == nullptr || threads == nullptr ||
      absl::string_view(cpus) != threads || !absl::SimpleAtoi(cpus, &number)) {
    return;
  }
  base.pbs_cpus = number;
  Remove(base, [](absl::string_view name) -> absl::string_view {
    return name == "OMP_NUM_THREADS" ? "PBS's, for one process on all CPUs of a chunk" : "";
  });
}

void RemoveIdentity(EnvBase& base) {
  Remove(base, [&](absl::string_view name) {
    const absl::string_view why = IdentityReason(name);
    return why.empty() ? SlurmReason(base.slurm, name) : why;
  });
}

}  // namespace

absl::string_view NameOf(absl::string_view entry) { return entry.substr(0, entry.find('=')); }

const char* EnvBase::Find(absl::string_view name) const {
  const size_t i = IndexOf(entries, name);
  return i == entries.size() || entries[i].size() == name.size()
             ? nullptr
             : entries[i].c_str() + name.size() + 1;
}

absl::string_view IdentityReason(absl::string_view name) {
  if (name == kEnvSecret) {
    return "the job's secret is not for workers";
  }
  for (const char* ours : kOurNames) {
    if (name == ours) {
      return "of an outer muster job";
    }
  }
  return Match(kIdentity, name);
}

bool ForwardWins(absl::string_view name) {
  constexpr Rule kSearch[] = {
      {"PATH", false, "search"},        {"LD_LIBRARY_PATH", false, "search"},
      {"PYTHONPATH", false, "search"},  {"PYTHONHOME", false, "search"},
      {"VIRTUAL_ENV", false, "search"}, {"CONDA_", true, "search"}};
  return !Match(kSearch, name).empty();
}

EnvBase FilterEnvironment(const std::vector<std::string>& inherited, const WorkPlan& plan) {
  EnvBase base;
  base.entries = inherited;
  SortUnique(base.entries);
  TakeBackThreads(base);  // before it stands in the way of the user's own
  std::vector<std::string> fill;
  std::vector<std::string> replace;
  for (const std::string& entry : plan.env_base) {
    (ForwardWins(NameOf(entry)) ? replace : fill).push_back(entry);
  }
  SortUnique(fill);
  SortUnique(replace);
  base.entries = Overlay(Overlay(std::move(fill), std::move(base.entries)), std::move(replace));

  TakeBackThreads(base);

  if (plan.env_none) {  // first: then nothing below sees what the workers do not get
    Remove(base, [](absl::string_view name) -> absl::string_view {
      return Match(kLogin, name).empty() ? "--env-none" : "";
    });
  }
  base.slurm = SlurmModeOf(plan, base.Find("SLURM_JOB_ID") != nullptr);
  base.slurm_nodelist = plan.slurm_nodelist;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (const char* list = base.Find(name); list != nullptr && base.slurm_nodelist.empty()) {
      base.slurm_nodelist = list;
    }
  }
  base.slurm_cpus_per_task =
      plan.slurm_cpus_per_task || base.Find("SLURM_CPUS_PER_TASK") != nullptr;
  RemoveIdentity(base);

  base.unset.insert(plan.env_unset.begin(), plan.env_unset.end());
  std::erase_if(base.entries, [&](const std::string& entry) {
    return !base.unset.empty() && base.unset.count(std::string(NameOf(entry))) != 0;
  });
  std::vector<std::string> named(plan.env_set.rbegin(), plan.env_set.rend());  // the last -x counts
  SortUnique(named);
  base.entries = Overlay(std::move(base.entries), std::move(named));
  return base;
}

std::vector<std::string> EntriesWithout(const EnvBase& base, const std::vector<EnvVar>& variables) {
  std::vector<bool> replaced(base.entries.size() + 1);  // the last: of names that are not there
  for (const EnvVar& variable : variables) {
    replaced[IndexOf(base.entries, variable.name)] = true;
  }
  std::vector<std::string> out;
  out.reserve(base.entries.size());
  for (size_t i = 0; i < base.entries.size(); ++i) {
    if (!replaced[i]) {
      out.push_back(base.entries[i]);
    }
  }
  return out;
}

namespace {

bool IsSetting(absl::string_view name) {
  constexpr Rule kSettings[] = {
      {"OMP_", true, "threads"},
      {"MKL_", true, "threads"},
      {"OPENBLAS_", true, "threads"},
      {"KMP_", true, "threads"},
      {"GOMP_", true, "threads"},
      {"NUMEXPR_", true, "threads"},
      {"TORCH_", true, "torch"},
      {"NCCL_", true, "torch"},
      {"GLOO_", true, "torch"},
      {"PYTORCH_", true, "torch"},
      {"CUDA_LAUNCH_", true, "torch"},
      {"CUDA_DEVICE_ORDER", false, "torch"},
      {"CUBLAS_", true, "torch"},
      {"USE_LIBUV", false, "torch"},
      {"TP_SOCKET_IFNAME", false, "torch"},
      {"UCX_", true, "transport"},
      {"FI_", true, "transport"},
      {"PSM2_", true, "transport"},
      {"PSM3_", true, "transport"},
      {"OMPI_MCA_", true, "mpi"},  // ranks with unlike settings of a collective wait for ever
      {"MPIR_CVAR_", true, "mpi"},
      {"MPICH_", true, "mpi"},
      {"I_MPI_", true, "mpi"},
      {"MV2_", true, "mpi"},
      {"MVP_", true, "mpi"},
      {"MALLOC_", true, "libraries"},
      {"PYTHON", true, "python"},
      {"HF_", true, "libraries"},
      {"LANG", false, "locale"},
      {"LC_", true, "locale"},
      {"TZ", false, "locale"},
      {"MUSTER_LOG", false, "ours"},
  };
  const bool secret = absl::StrContains(name, "TOKEN") || absl::StrContains(name, "SECRET") ||
                      absl::StrContains(name, "PASSW") || absl::StrContains(name, "_KEY");
  return !secret && (ForwardWins(name) || !Match(kSettings, name).empty());
}

constexpr Rule kDevices[] = {{"CUDA_VISIBLE_DEVICES", false, "devices"},
                             {"HIP_VISIBLE_DEVICES", false, "devices"},
                             {"ROCR_VISIBLE_DEVICES", false, "devices"},
                             {"GPU_DEVICE_ORDINAL", false, "devices"},
                             {"ZE_AFFINITY_MASK", false, "devices"}};

// Of this host, its devices, its shell or its terminal.
bool IsOfHost(absl::string_view name) {
  constexpr Rule kOfHost[] = {{"PBS_", true, "scheduler"},
                              {"NCPUS", false, "scheduler"},
                              {"TMPDIR", false, "scheduler"},
                              {"HOSTNAME", false, "host"},
                              {"HOST", false, "host"},
                              {"PWD", false, "shell"},
                              {"OLDPWD", false, "shell"},
                              {"SHLVL", false, "shell"},
                              {"_", false, "shell"},
                              {"DISPLAY", false, "terminal"},
                              {"XAUTHORITY", false, "terminal"},
                              {"DBUS_", true, "terminal"},
                              {"SSH_", true, "terminal"},
                              {"XDG_", true, "terminal"}};
  return name == kEnvSecret || !Match(kOfHost, name).empty() || ChoosesDevices(name);
}

}  // namespace

bool ChoosesDevices(absl::string_view name) { return !Match(kDevices, name).empty(); }

std::vector<std::string> EnvironmentToForward(const std::vector<std::string>& own,
                                              const WorkPlan& plan, Forwarded what) {
  std::vector<std::string> out;
  for (const std::string& entry : own) {
    const absl::string_view name = NameOf(entry);
    const bool wanted = plan.env_none ? !Match(kLogin, name).empty() && IsSetting(name)
                        : what == Forwarded::kSettings ? IsSetting(name)
                                                       : !IsOfHost(name);
    if (wanted) {
      out.push_back(entry);
    }
  }
  return out;
}

}  // namespace muster
