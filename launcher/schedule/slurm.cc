#include "launcher/schedule/slurm.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/schedule/first_set.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/slurm_gpus.h"
#include "launcher/schedule/slurm_variables.h"
#include "proto/base/env_names.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

using Variables = SlurmVariables;

// L4.
constexpr PortRange kStepPorts{20000, 28999};
constexpr uint64_t kStepsApart = 37;  // prime to the number of ports

constexpr char kShellStep[] = "4294967290";  // use_interactive_step

void SetSlots(const std::vector<uint32_t>& slots, absl::string_view what, GivenHosts& out) {
  for (size_t i = 0; i < slots.size(); ++i) {
    out.hosts[i].slots = slots[i];
    out.hosts[i].slots_given = true;
  }
  out.slots_are = std::string(what);
}

// How many workers a node whose task we are runs where nobody says so.
struct OwnCount {
  uint32_t workers = 1;
  std::string are;  // "GPUs", "CPUs"; "" = Slurm does not say
};
absl::StatusOr<OwnCount> CountOwn(const Variables& environment) {
  const auto* gpus = FirstSet(environment, "SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE");
  if (gpus != nullptr) {
    ASSIGN_OR_RETURN(const uint32_t each, NumberOfGpus(*gpus));
    if (each > 0) {
      return OwnCount{each, "GPUs"};
    }
  }
  if (const auto* cpus = FirstSet(environment, "SLURM_CPUS_ON_NODE")) {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> one, NumberEach(*cpus, 1));
    return OwnCount{one[0], "CPUs"};
  }
  return OwnCount();
}

// L2.
absl::Status CountSlots(const Variables& environment, bool step, const SlurmGpus& gpus,
                        GivenHosts& out) {
  const size_t hosts = out.hosts.size();
  const auto* step_tasks = FirstSet(environment, "SLURM_STEP_NUM_TASKS");
  if (step && hosts == 1 && step_tasks != nullptr && step_tasks->second == "1") {  // L5
    ASSIGN_OR_RETURN(const OwnCount count, CountOwn(environment));
    SetSlots({count.workers}, count.are.empty() ? "tasks" : count.are, out);
    return absl::OkStatus();
  }
  const auto* tasks = FirstSet(environment, step ? "SLURM_STEP_TASKS_PER_NODE SLURM_TASKS_PER_NODE"
                                                 : "SLURM_TASKS_PER_NODE");
  // Slurm counts one task a node where nobody asked for any.
  const bool asked =
      step || FirstSet(environment, "SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE");
  if (tasks != nullptr && asked) {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> slots, NumberEach(*tasks, hosts));
    SetSlots(slots, "tasks", out);
    return absl::OkStatus();
  }
  if (std::any_of(gpus.each.begin(), gpus.each.end(), [](uint32_t each) { return each > 0; })) {
    SetSlots(gpus.each, "GPUs", out);
    return absl::OkStatus();
  }
  if (const auto* cpus = FirstSet(environment, "SLURM_JOB_CPUS_PER_NODE")) {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> slots, NumberEach(*cpus, hosts));
    SetSlots(slots, "CPUs", out);
    return absl::OkStatus();
  }
  SetSlots(std::vector<uint32_t>(hosts, 1), "nodes", out);
  return absl::OkStatus();
}

// The first node that has not `each` GPUs for each of its tasks, though they were asked for so:
// Slurm deals GPUs and tasks out apart. "" = none.
std::string Shared(const std::vector<HostEntry>& hosts, const std::vector<uint32_t>& gpus,
                   uint32_t each) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (uint64_t{hosts[i].slots} * each > gpus[i]) {
      return absl::StrCat("Slurm has given ", hosts[i].name, " ", Plural(gpus[i], "GPU", "GPUs"),
                          " for ", Plural(hosts[i].slots, "task", "tasks"),
                          ", which share them (sbatch --ntasks-per-node and --gpus-per-node give ",
                          "each node as many)");
    }
  }
  return "";
}

// SLURM_DISTRIBUTION where it asks for another order of the ranks than node by node; else "".
std::string OtherDistribution(const Variables& environment, const std::vector<HostEntry>& hosts) {
  const auto* said = FirstSet(environment, "SLURM_DISTRIBUTION");  // "cyclic:block", "plane"
  if (said == nullptr) {
    return "";
  }
  const absl::string_view how =
      absl::string_view(said->second).substr(0, said->second.find_first_of(":,="));
  const auto* plane = FirstSet(environment, "SLURM_DIST_PLANESIZE");
  uint32_t size = 0;
  if (how == "plane" && plane != nullptr && absl::SimpleAtoi(plane->second, &size) &&
      std::all_of(hosts.begin(), hosts.end(),
                  [size](const HostEntry& host) { return host.slots <= size; })) {
    return "";  // a node takes a plane
  }
  return how == "cyclic" || how == "plane" || how == "arbitrary"
             ? absl::StrCat(said->first, "=", said->second)
             : "";
}

// The list of the nodes that we are in, or null where we are in no job of Slurm's, or in a worker.
struct Place {
  const SlurmVariable* job = nullptr;
  const SlurmVariable* nodes = nullptr;
  bool step = false;
};
std::optional<Place> PlaceOf(const Variables& environment) {
  Place out;
  out.job = FirstSet(environment, "SLURM_JOB_ID SLURM_JOBID");
  out.step = FirstSet(environment, "SLURM_STEP_NODELIST") != nullptr && !IsShell(environment);
  out.nodes = out.step ? FirstSet(environment, "SLURM_STEP_NODELIST")
                       : FirstSet(environment, "SLURM_JOB_NODELIST SLURM_NODELIST");
  if (out.job == nullptr || out.nodes == nullptr || environment.count(kEnvJobId) != 0) {
    return std::nullopt;
  }
  return out;
}

// For people; of an array as squeue writes it.
std::string JobName(const Variables& environment, const std::string& id) {
  const auto* array = FirstSet(environment, "SLURM_ARRAY_JOB_ID");
  const auto* task = FirstSet(environment, "SLURM_ARRAY_TASK_ID");
  return array == nullptr || task == nullptr
             ? absl::StrCat("Slurm job ", id)
             : absl::StrCat("Slurm job ", array->second, "_", task->second);
}

absl::StatusOr<std::vector<std::string>> NamesIn(const SlurmVariable& list) {
  absl::StatusOr<std::vector<std::string>> names = ExpandHostList(list.second);
  return names.ok() ? std::move(names) : NotSlurms(list, names.status().message());
}

// A number of the task that we are, 0..`max`.
absl::StatusOr<uint32_t> NumberOf(const Variables& environment, absl::string_view names,
                                  uint32_t max) {
  const auto* variable = FirstSet(environment, names);
  if (variable == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.substr(0, names.find(' ')),
                     " is not set, although srun has started several tasks", kWithoutSlurm));
  }
  uint32_t number = 0;
  if (!absl::SimpleAtoi(variable->second, &number) || number > max) {
    return NotSlurms(*variable, absl::StrCat("want 0..", max));
  }
  return number;
}

// What names the job, its place and its settings for those in it; the rest says how a step is to
// be, or was.
bool IsOfJob(absl::string_view name) {
  constexpr absl::string_view kNames[] = {
      "SLURM_ARRAY_",   "SLURM_CLUSTER_NAME", "SLURM_CONF",          "SLURM_GPUS_ON_NODE",
      "SLURM_HET_",     "SLURM_JOB_",         "SLURM_JOBID",         "SLURM_NODELIST",
      "SLURM_NNODES",   "SLURM_PRIO_PROCESS", "SLURM_RESTART_COUNT", "SLURM_SUBMIT_",
      "SLURM_TOPOLOGY_"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [name](absl::string_view one) { return absl::StartsWith(name, one); });
}

}  // namespace

namespace {

// A heterogeneous job says of each component what another job says of itself, with the component's
// number behind the name; names without are those of the first, or missing.
absl::StatusOr<std::optional<GivenHosts>> HostsOfComponents(const SlurmVariable& size,
                                                            const Variables& environment) {
  uint32_t groups = 0;
  if (!absl::SimpleAtoi(size.second, &groups) || groups == 0 || groups > kNodesMax) {
    return NotSlurms(size, absl::StrCat("want 1..", kNodesMax));
  }
  GivenHosts out;
  for (uint32_t group = 0; group < groups; ++group) {
    Variables own = {{"SLURM_JOB_ID", "0"}};
    const std::string suffix = absl::StrCat("_HET_GROUP_", group);
    for (const auto& [name, value] : environment) {
      if (absl::string_view base = name; absl::ConsumeSuffix(&base, suffix)) {
        own[std::string(base)] = value;
      }
    }
    ASSIGN_OR_RETURN(const std::optional<GivenHosts> one, HostsOfSlurm(own));
    if (!one) {
      return NotSlurms(size, absl::StrCat("SLURM_JOB_NODELIST", suffix, " is not set"));
    }
    out.gpus.insert(one->gpus.begin(), one->gpus.end());
    out.note = one->note.empty() ? out.note : one->note;
    out.distribution = one->distribution.empty() ? out.distribution : one->distribution;
    out.gpus_of_task = group == 0 || out.gpus_of_task == one->gpus_of_task ? one->gpus_of_task : 0;
    out.gpus_of_task_said = one->gpus_of_task_said;
    out.slots_are =
        group == 0 || out.slots_are == one->slots_are ? one->slots_are : "tasks, GPUs or CPUs";
    for (const HostEntry& host : one->hosts) {
      const bool known = !out.het_group.emplace(host.name, group).second;
      if (!known) {
        out.hosts.push_back(host);
        continue;
      }
      std::find_if(out.hosts.begin(), out.hosts.end(), [&host](const HostEntry& there) {
        return there.name == host.name;
      })->slots += host.slots;  // two components share it
    }
  }
  const auto* job = FirstSet(environment, "SLURM_JOB_ID SLURM_JOB_ID_HET_GROUP_0");
  out.job = JobName(environment, job == nullptr ? "?" : job->second);
  if (const auto* here = FirstSet(environment, "SLURMD_NODENAME")) {
    out.here = here->second;
  }
  return std::optional<GivenHosts>(std::move(out));
}

}  // namespace

bool IsShell(const Variables& environment) {
  const auto* step = FirstSet(environment, "SLURM_STEP_ID SLURM_STEPID");
  return step != nullptr && (step->second == kShellStep || step->second == "interactive");
}

Variables AtThePrompt(Variables environment) {
  const auto* step_nodes = FirstSet(environment, "SLURM_STEP_NODELIST");
  if (environment.count("SLURM_PTY_PORT") == 0 || step_nodes == nullptr ||
      environment.count(kEnvJobId) != 0) {
    return environment;
  }
  const auto value = [&environment](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? "" : at->second;
  };
  const std::string nodes = value("SLURM_STEP_NUM_NODES"), tasks = value("SLURM_STEP_NUM_TASKS");
  if (value("SLURM_JOB_NODELIST") != step_nodes->second) {  // as many CPUs on each, for all we know
    environment["SLURM_JOB_NODELIST"] = step_nodes->second;
    environment["SLURM_JOB_CPUS_PER_NODE"] =
        absl::StrCat(value("SLURM_CPUS_ON_NODE"), "(x", nodes, ")");
  }
  environment["SLURM_TASKS_PER_NODE"] = value("SLURM_STEP_TASKS_PER_NODE");
  for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"}) {
    environment.erase(name);
  }
  if (tasks != nodes) {  // that srun writes also where nobody has asked for it
    environment["SLURM_NTASKS"] = tasks;
  }
  environment["SLURM_STEP_ID"] = environment["SLURM_STEPID"] = kShellStep;
  environment.erase("SLURM_STEP_NUM_TASKS");
  return environment;
}

absl::StatusOr<std::optional<StepTask>> TaskOfSlurm(const Variables& environment, PortRange ports) {
  const std::optional<Place> place = PlaceOf(environment);
  const auto* tasks = FirstSet(environment, "SLURM_STEP_NUM_TASKS");
  if (!place || !place->step || tasks == nullptr || tasks->second == "1") {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(*place->nodes));
  if (tasks->second != absl::StrCat(names.size())) {
    const auto* task = FirstSet(environment, "SLURM_PROCID");
    const bool said = task != nullptr && task->second != "0";
    return absl::Status(
        said ? absl::StatusCode::kAlreadyExists : absl::StatusCode::kInvalidArgument,
        absl::StrCat("srun has started launch ", tasks->second, " times (", tasks->first, ") on ",
                     Plural(names.size(), "node", "nodes"),
                     ": want one a node (srun --ntasks=", names.size(),
                     " --ntasks-per-node=1; --nproc-per-node says how many workers each has), or "
                     "leave srun ",
                     "out: launch starts the nodes itself; --standalone makes a job of each"));
  }
  constexpr uint32_t kAny = UINT32_MAX;
  ASSIGN_OR_RETURN(const uint32_t job, NumberOf(environment, "SLURM_JOB_ID SLURM_JOBID", kAny));
  ASSIGN_OR_RETURN(const uint32_t step, NumberOf(environment, "SLURM_STEP_ID SLURM_STEPID", kAny));
  StepTask out;
  out.step = absl::StrCat(JobName(environment, place->job->second), ", step ", step);
  out.job_id = absl::StrCat("slurm-", job, ".", step);
  out.hosts = names;
  const PortRange range = ports.Any() ? kStepPorts : ports;
  const uint64_t count = uint64_t{range.high} - range.low + 1;
  out.port = static_cast<uint16_t>(range.low + (kStepsApart * job + step) % count);
  out.nodes = static_cast<uint32_t>(names.size());
  ASSIGN_OR_RETURN(out.node_rank, NumberOf(environment, "SLURM_NODEID", out.nodes - 1));
  ASSIGN_OR_RETURN(OwnCount own, CountOwn(environment));
  out.workers = own.workers;
  out.workers_are = std::move(own.are);
  return std::optional<StepTask>(std::move(out));
}

absl::StatusOr<std::optional<GivenHosts>> HostsOfSlurm(const Variables& environment) {
  const auto* het = FirstSet(environment, "SLURM_HET_SIZE");
  const bool in_step = FirstSet(environment, "SLURM_STEP_NODELIST") != nullptr;
  if (het != nullptr && (!in_step || IsShell(environment)) && environment.count(kEnvJobId) == 0) {
    return HostsOfComponents(*het, environment);
  }
  const std::optional<Place> place = PlaceOf(environment);
  if (!place) {
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(*place->nodes));
  GivenHosts out;
  out.job = JobName(environment, place->job->second);
  if (const auto* here = FirstSet(environment, "SLURMD_NODENAME")) {
    out.here = here->second;
  }
  for (const std::string& name : names) {
    HostEntry host;
    host.name = name;
    out.hosts.push_back(std::move(host));
  }
  if (place->step) {
    RETURN_IF_ERROR(CountSlots(environment, true, {}, out));
    return std::optional<GivenHosts>(std::move(out));
  }
  const auto own = std::find(names.begin(), names.end(), out.here);
  ASSIGN_OR_RETURN(const SlurmGpus gpus,
                   GpusOfJob(environment, names.size(), static_cast<size_t>(own - names.begin())));
  RETURN_IF_ERROR(CountSlots(environment, false, gpus, out));
  for (size_t i = 0; i < names.size(); ++i) {
    out.gpus.emplace(names[i], gpus.step[i]);
  }
  out.note = gpus.note;
  if (std::optional<GpusOfTask> each = OwnGpusOfTask(environment); each.has_value()) {
    out.gpus_of_task = each->each;
    out.gpus_of_task_said = std::move(each->said);
    out.note = out.note.empty() ? Shared(out.hosts, gpus.each, each->each) : out.note;
  }
  if (!IsShell(environment)) {  // srun sets it for each step, asked or not
    out.distribution = OtherDistribution(environment, out.hosts);
  }
  return std::optional<GivenHosts>(std::move(out));
}

std::optional<std::string> HetGroupOption(const GivenHosts& job, const std::string& host) {
  const auto group = job.het_group.find(host);
  if (group == job.het_group.end()) {
    return std::nullopt;
  }
  return absl::StrCat("--het-group=", group->second);
}

std::vector<std::string> SrunOptions(const GivenHosts& job, const std::vector<std::string>& hosts) {
  const size_t n = hosts.size();
  std::vector<std::string> out = {
      "srun",
      absl::StrCat("--nodes=", n),
      absl::StrCat("--ntasks=", n),
      "--ntasks-per-node=1",
      absl::StrCat("--nodelist=", SlurmHostList(hosts)),
      "--overlap",        // other steps run beside it
      "--cpu-bind=none",  // all CPUs of the allocation; --exact would leave one
      "--mpi=none",
      "--kill-on-bad-exit=0",
      "--wait=0",
      "--no-kill",  // an agent's end is not the others'
      "--export=ALL",
      "--job-name=muster"};
  const auto gpus = job.gpus.find(hosts.front());
  if (gpus != job.gpus.end() && !gpus->second.empty()) {
    out.push_back(gpus->second);
  }
  if (std::optional<std::string> group = HetGroupOption(job, hosts.front()); group.has_value()) {
    out.push_back(*std::move(group));
  }
  return out;
}

std::vector<std::vector<std::string>> StepsFor(const GivenHosts& job,
                                               const std::vector<std::string>& hosts) {
  std::map<uint32_t, std::vector<std::string>> steps;
  std::vector<std::vector<std::string>> out;
  for (const std::string& host : hosts) {
    const auto group = job.het_group.find(host);
    const auto gpus = job.gpus.find(host);
    if (gpus != job.gpus.end() && absl::StartsWith(gpus->second, "--gpus=")) {  // G1
      out.push_back({host});
    } else {
      steps[group == job.het_group.end() ? 0 : group->second].push_back(host);
    }
  }
  for (auto& [group, of_group] : steps) {
    out.push_back(std::move(of_group));
  }
  return out;
}

std::vector<std::string> SrunCommand(const GivenHosts& job, const std::vector<std::string>& hosts,
                                     const std::string& agent_path) {
  std::vector<std::string> out = SrunOptions(job, hosts);
  out.insert(out.end(), {agent_path, "--dial"});
  return out;
}

std::vector<std::string> SrunEnvironment(const std::vector<std::string>& own) {
  std::vector<std::string> out;
  for (const std::string& entry : own) {
    const absl::string_view name = absl::string_view(entry).substr(0, entry.find('='));
    const bool says_how =
        absl::StartsWith(name, "SRUN_") || (absl::StartsWith(name, "SLURM_") && !IsOfJob(name));
    if (!says_how) {
      out.push_back(entry);
    }
  }
  return out;
}

StepEnd SrunEnd(absl::string_view line) {
  constexpr absl::string_view kBefore = ": error: ";
  const size_t before = line.find(kBefore);
  if (before == absl::string_view::npos) {
    return {};
  }
  const absl::string_view said = line.substr(before + kBefore.size());
  if (absl::StartsWith(said, "*** STEP ") && absl::StrContains(said, " CANCELLED AT ")) {
    StepEnd out;
    out.cancelled = true;
    return out;
  }
  const size_t end = said.find(": task");
  if (end == absl::string_view::npos) {
    return {};
  }
  absl::StatusOr<std::vector<std::string>> hosts = ExpandHostList(said.substr(0, end));
  if (!hosts.ok()) {
    return {};
  }
  return {*std::move(hosts), std::string(line), absl::EndsWith(said, ": Killed"),
          absl::StrContains(said, ": Exited with exit code ")};
}

}  // namespace muster
