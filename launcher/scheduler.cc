#include "launcher/scheduler.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/job_life.h"
#include "launcher/placement.h"
#include "launcher/programs.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/pbs.h"
#include "launcher/schedule/pod.h"
#include "launcher/schedule/slurm.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// srun starts all tasks of a step at once: who is missing then has mostly ended, for an option that
// is wrong on its node alone, say, and nobody starts it again.
constexpr absl::Duration kStepJoinTimeout = absl::Minutes(2);

// Typed in each task of a step, these make a job of each task, which is rarely meant.
void NoteJobOfEachTask(JobSpec& spec, const Environment& environment) {
  constexpr OptionId kSayWhere[] = {OptionId::kHosts, OptionId::kHostfile, OptionId::kRdzvEndpoint};
  const auto* said = std::find_if(std::begin(kSayWhere), std::end(kSayWhere),
                                  [&spec](OptionId id) { return spec.Has(id); });
  if (said == std::end(kSayWhere) ||
      (*said == OptionId::kRdzvEndpoint && spec.Has(OptionId::kNnodes))) {
    return;
  }
  const absl::StatusOr<std::optional<StepTask>> task = TaskOfSlurm(environment, spec.plan.ports);
  if (task.ok() && task->has_value() && (*task)->node_rank == 0) {
    spec.notes.push_back(absl::StrCat(
        (*task)->step, ": each of its ", (*task)->nodes, " tasks runs this whole job, as ",
        spec.Said(*said), " says; without it they are the nodes of one",
        *said == OptionId::kRdzvEndpoint ? absl::StrCat(", and with --nnodes ", (*task)->nodes)
                                         : ""));
  }
}

// --journal in a job of Slurm's, by which all its processes end together: what is kept is for its
// next life. `hosts` get the places that they had in the one before.
void KeepLife(JobSpec& spec, const FileReader& read_file, std::vector<std::string>& hosts) {
  if (spec.journal.empty() || !spec.slurm.has_value()) {
    return;
  }
  KeptLife life;
  life.file = absl::StrCat(spec.journal, "/slurm-", spec.slurm->id);
  if (spec.slurm->restarts > 0) {
    const absl::StatusOr<std::string> text = read_file(life.file);
    absl::StatusOr<JobLife> before = text.ok() ? ParseLifeText(*text) : text.status();
    if (before.ok()) {
      hosts = KeepPlaces(std::move(hosts), before->hosts);
      life.history = HistoryAfter(*std::move(before), spec.slurm->restarts);
      spec.notes.push_back(
          absl::StrCat("the nodes that are there again keep their ranks: ", life.history.back()));
    } else {
      spec.notes.push_back(absl::StrCat(life.file, ": ", before.status().message(),
                                        ": the nodes' ranks of before are not known"));
    }
  }
  life.hosts = hosts;
  spec.life = std::move(life);
  spec.journal.clear();
}

// The hosts of an allocation, likewise.
void KeepLife(JobSpec& spec, const FileReader& read_file, std::vector<HostEntry>& entries) {
  std::vector<std::string> hosts;
  std::map<std::string, HostEntry> by_name;
  for (HostEntry& entry : entries) {
    hosts.push_back(entry.name);
    by_name[entry.name] = std::move(entry);
  }
  KeepLife(spec, read_file, hosts);
  for (size_t i = 0; i < hosts.size(); ++i) {
    entries[i] = std::move(by_name[hosts[i]]);
  }
}

// srun has started launch on every node: what a user would type there follows from the step.
absl::Status TakeStepTask(StepTask task, const FileReader& read_file, JobSpec& spec) {
  if (spec.Has(OptionId::kRankfile) || spec.rank_order == RankOrder::kInTurn) {
    const OptionId places = spec.Has(OptionId::kRankfile) ? OptionId::kRankfile : OptionId::kMapBy;
    return absl::InvalidArgumentError(
        absl::StrCat(spec.Said(places), ": srun has started launch on every node (", task.step,
                     "): leave srun out, so that launch places the ranks"));
  }
  if (spec.Has(OptionId::kNnodes) && spec.nodes_max != task.nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.Said(OptionId::kNnodes), ": srun has started launch on ",
                     Plural(task.nodes, "node", "nodes"), " (", task.step,
                     "): leave it out, or give srun the same --nodes"));
  }
  if (!spec.Has(OptionId::kNnodes)) {
    spec.nodes_min = spec.nodes_max = task.nodes;
  }
  RendezvousSpec& r = spec.rendezvous;
  r.host = task.hosts.front();
  r.port = task.port;
  r.id = r.id.empty() ? task.job_id : r.id;
  r.is_host = spec.serve = task.node_rank == 0;
  r.step = task.step;
  if (!spec.Has(OptionId::kRdzvConf)) {
    r.join_timeout = kStepJoinTimeout;
  }
  const std::string here = task.hosts[task.node_rank];
  KeepLife(spec, read_file, task.hosts);
  const auto place = std::find(task.hosts.begin(), task.hosts.end(), here);
  spec.node_rank = static_cast<uint32_t>(place - task.hosts.begin());
  if (spec.plan.workers_wanted == WorkersWanted::kNumber && !spec.Has(OptionId::kNprocPerNode) &&
      !spec.per_node && !spec.total) {
    spec.plan.workers = task.workers;
    const std::string why =
        task.workers_are.empty() ? "" : absl::StrCat(", as many as its ", task.workers_are);
    spec.notes.push_back(absl::StrCat(task.step, ": ", task.nodes, " nodes, ",
                                      Plural(task.workers, "worker", "workers"), " on the first",
                                      why, " (--nproc-per-node says otherwise)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<GivenHosts>> HostsOfScheduler(const Environment& environment,
                                                           const FileReader& read_file) {
  ASSIGN_OR_RETURN(std::optional<GivenHosts> slurm, HostsOfSlurm(environment));
  if (slurm.has_value()) {
    return slurm;
  }
  return HostsOfPbs(environment, read_file);
}

// The pod of index 0 serves; each pod's index is its node rank.
absl::Status TakePod(JobSpec& spec, const FileReader& read_file, const Environment& environment) {
  if (spec.nodes_max == 1 || NamesHosts(spec) || spec.Has(OptionId::kStandalone) ||
      spec.Has(OptionId::kNodeRank) || spec.serve) {
    return absl::OkStatus();
  }
  // Without the file the pod's name in full is not known.
  ASSIGN_OR_RETURN(spec.pod, PlaceOfPod(environment, read_file(kEtcHosts).value_or("")));
  if (!spec.pod.has_value()) {
    return absl::OkStatus();
  }
  RendezvousSpec& r = spec.rendezvous;
  spec.node_rank = spec.pod->index;
  if (r.id.empty()) {
    r.id = spec.pod->job;
  }
  if (!r.file.empty() || !spec.master_addr.empty()) {
    return absl::OkStatus();
  }
  if (r.host.empty() && spec.pod->first.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "this pod has no name by which others reach it: give the template of Job ", spec.pod->job,
        " a `subdomain`, and make a headless Service of that name (deploy/kubernetes has both), ",
        "or say --rdzv-endpoint HOST:PORT"));
  }
  if (r.host.empty()) {
    r.host = spec.pod->first;
    r.port = kRendezvousPort;
    spec.notes.push_back(absl::StrCat("pod ", spec.pod->index, " of Job ", spec.pod->job,
                                      ": its nodes meet at ", r.host));
  }
  const std::string first = absl::StrCat(spec.pod->job, "-0");
  if (!r.is_host.has_value() && (r.host == first || absl::StartsWith(r.host, first + "."))) {
    r.is_host = spec.pod->index == 0;  // its name may not be known yet, even to itself
  }
  return absl::OkStatus();
}

void SettleSlurm(JobSpec& spec) {
  if (!spec.slurm.has_value()) {
    return;
  }
  if (!spec.Has(OptionId::kStopGrace)) {
    spec.plan.grace = GraceOf(spec.slurm->kill_wait);
  }
  if (spec.slurm->restarts > 0) {
    spec.notes.push_back(absl::StrCat("Slurm has restarted this job ",
                                      Plural(spec.slurm->restarts, "time", "times"),
                                      " (SLURM_RESTART_COUNT)"));
  }
}

}  // namespace

bool SaysWhere(const JobSpec& spec) {
  constexpr OptionId kSayWhere[] = {
      OptionId::kHosts,        OptionId::kHostfile,   OptionId::kStandalone, OptionId::kServe,
      OptionId::kRdzvEndpoint, OptionId::kMasterAddr, OptionId::kNodeRank};
  return SaysProgram(spec, OptionId::kHosts) ||
         std::any_of(std::begin(kSayWhere), std::end(kSayWhere),
                     [&spec](OptionId id) { return spec.Has(id); });
}

absl::Status TakeScheduler(JobSpec& spec, const FileReader& read_file,
                           const Environment& environment) {
  if (InPbs(environment) && !spec.Has(OptionId::kStopGrace)) {
    spec.plan.grace = kPbsGrace;
  }
  ASSIGN_OR_RETURN(spec.slurm, ReadSlurmJob(environment, read_file));
  SettleSlurm(spec);
  spec.pbs = ReadPbsJob(environment, read_file);
  spec.in_pod = environment.count("KUBERNETES_SERVICE_HOST") != 0;
  if (SaysWhere(spec)) {
    NoteJobOfEachTask(spec, environment);
  } else {
    ASSIGN_OR_RETURN(std::optional<StepTask> task, TaskOfSlurm(environment, spec.plan.ports));
    if (task.has_value()) {
      return TakeStepTask(*std::move(task), read_file, spec);
    }
    ASSIGN_OR_RETURN(spec.given_hosts, HostsOfScheduler(environment, read_file));
    spec.plan.slurm_cpus_per_task = environment.count("SLURM_CPUS_PER_TASK") != 0;
    if (spec.given_hosts.has_value()) {
      KeepLife(spec, read_file, spec.given_hosts->hosts);
    }
    if (spec.given_hosts.has_value() && !spec.given_hosts->note.empty()) {
      spec.notes.push_back(absl::StrCat(spec.given_hosts->job, ": ", spec.given_hosts->note));
    }
  }
  return TakePod(spec, read_file, environment);
}

void NoteBesideJob(JobSpec& spec, const Environment& environment) {
  const auto is_here = [&environment](const NodeWorkers& node) {
    const auto is = [&](const char* variable) {
      const auto at = environment.find(variable);
      return at != environment.end() && IsSameHost(node.host.name, at->second);
    };
    return node.host.name == "localhost" || is("SLURMD_NODENAME") || is(kOwnHostname);
  };
  const OptionId by = spec.Has(OptionId::kHostfile) ? OptionId::kHostfile : OptionId::kHosts;
  const bool in_job = spec.slurm.has_value() ? !spec.slurm->in_step : spec.pbs.has_value();
  if (!in_job || spec.given_hosts.has_value() || !spec.Has(by) ||
      std::all_of(spec.nodes.begin(), spec.nodes.end(), is_here)) {
    return;
  }
  spec.notes.push_back(absl::StrCat(spec.Said(by), ": its nodes are started by ssh, beside ",
                                    spec.slurm.has_value() ? spec.slurm->name : spec.pbs->name,
                                    ", whose CPUs and end do not hold there; without it launch "
                                    "takes the job's own nodes (some of "
                                    "them: --nnodes N, or --exclude LIST)"));
}

void SettleTasks(JobSpec& spec) {
  if (!spec.given_hosts.has_value()) {
    return;
  }
  const GivenHosts& given = *spec.given_hosts;
  const bool several =
      std::any_of(spec.nodes.begin(), spec.nodes.end(), [](const NodeWorkers& node) {
        return node.wanted != WorkersWanted::kNumber || node.workers > 1;
      });
  if (!given.distribution.empty() && spec.nodes.size() > 1 && several &&
      !spec.Has(OptionId::kRankfile) && spec.rank_order != RankOrder::kInTurn) {
    spec.notes.push_back(absl::StrCat(given.job, ": ", given.distribution,
                                      " has no effect: the ranks fill one node after the other ",
                                      "(--map-by node: in turn, --rankfile FILE: each its place)"));
  }
  CpuBinding& binding = spec.plan.binding;
  const uint32_t each = given.gpus_of_task;
  const bool as_tasks =
      std::all_of(spec.nodes.begin(), spec.nodes.end(), [&given, each](const NodeWorkers& node) {
        return node.wanted == WorkersWanted::kNumber
                   ? node.workers <= node.host.slots &&
                         (given.slots_are == "tasks" || (given.slots_are == "GPUs" && each == 1))
                   : node.wanted == WorkersWanted::kGpu && each == 1;
      });
  if (each == 0 || !as_tasks || spec.plan.virtual_local_rank || spec.Has(OptionId::kGpuMode) ||
      spec.Has(OptionId::kGpusPerWorker)) {
    return;
  }
  binding.gpu_mode = GpuMode::kOneIfEnough;
  binding.gpus_per_worker = each > 1 ? each : 0;
  spec.notes.push_back(absl::StrCat(
      given.job, ": each worker sees its own ", each == 1 ? "GPU" : absl::StrCat(each, " GPUs"),
      " only, where its node has enough, as ", given.gpus_of_task_said,
      " says (--gpu-mode all: all of its node)"));
}

}  // namespace muster
