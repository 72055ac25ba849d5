#include "launcher/look_first.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/programs.h"
#include "agent/io/node_facts.h"
#include "agent/io/program_facts.h"
#include "agent/io/worker_placement.h"
#include "agent/probe/command_output.h"
#include "launcher/answer.h"
#include "launcher/batch_shell.h"
#include "launcher/described_topology.h"
#include "launcher/explain_env.h"
#include "launcher/job_file_writer.h"
#include "launcher/job_run.h"
#include "launcher/node_overrides.h"
#include "launcher/planned_places.h"
#include "launcher/remote_starter.h"
#include "launcher/schedule/pbs.h"
#include "launcher/schedule/slurm.h"
#include "launcher/schedule/slurm_gpus.h"
#include "launcher/schedule/ssh_starter.h"
#include "launcher/scheduler.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

constexpr absl::Duration kSilentAfter = absl::Seconds(2);  // then a file is said to be waited for
constexpr size_t kHostFileBytesMax = 16u << 20;
// slurmctld mostly does at once; a start waits for it, and goes on without.
constexpr absl::Duration kScontrolAnswers = absl::Seconds(5);
constexpr size_t kScontrolBytesMax = 16u << 20;  // some 100 bytes a node, in one line
constexpr size_t kJobFileBytesMax = 1u << 20;    // options and one command: a few hundred bytes

absl::StatusOr<NodeFacts> FactsHere(const JobSpec& spec) {
  NodeQuery query = OwnQuery(spec.plan.binding.cpu_list);
  query.other_nodes = spec.way != StartWay::kLocal && spec.way != StartWay::kStandalone;
  query.iface = spec.plan.iface;
  query.route_to = spec.rendezvous.host;
  query.route_is_hint = spec.pod.has_value();
  return ReadNodeFacts(query);
}

// How many workers node `index` runs if it is this machine, or one like it.
absl::StatusOr<uint32_t> WorkersLikeHere(const JobSpec& spec, size_t index) {
  WorkPlan work = spec.plan;
  if (index < spec.nodes.size()) {
    work.workers_wanted = spec.nodes[index].wanted;
    work.workers = spec.nodes[index].workers;
  }
  // No address: a plan can be shown where the names do not resolve.
  ASSIGN_OR_RETURN(const NodeFacts facts, ReadNodeFacts(OwnQuery(spec.plan.binding.cpu_list)));
  CountObjects(facts, work);
  return WorkersOnNode(work, facts);
}

// Nodes that are not asked before the start are taken to be like this machine. Whether there are.
absl::StatusOr<bool> AssumeCounts(const JobSpec& spec, LaunchPlan& plan) {
  bool assumed = false;
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    if (plan.nodes[i].workers == 0) {
      ASSIGN_OR_RETURN(plan.nodes[i].workers, WorkersLikeHere(spec, i));
      assumed = true;
    }
  }
  NumberRanks(plan);
  return assumed;
}

// As a job file calls it.
std::string NameOfNode(const JobSpec& spec, const PlanNode& node, const NodeFacts& facts) {
  return spec.way == StartWay::kStandalone ? absl::StrCat("node", node.node_rank)
         : spec.way == StartWay::kHosts    ? node.name
                                           : facts.hostname;
}

int Refuse(const absl::Status& status) {
  LogError(status.message());
  return kExitUsage;
}

// Until there is something to read, or its end. What nobody writes to (a FIFO, a terminal) is said,
// once: `told`.
void AwaitText(int fd, const std::string& path, bool& told) {
  const auto poll_for = [fd](int ms) {
    pollfd one{fd, POLLIN, 0};
    return poll(&one, 1, ms);
  };
  if (!told && poll_for(static_cast<int>(kSilentAfter / absl::Milliseconds(1))) == 0) {
    told = true;
    LogInfo(absl::StrCat(path == "-" ? "standard input" : path, ": waits for ",
                         "its text, which nobody has written to the end yet (Ctrl-C ends this)"));
  }
  if (told) {
    (void)poll_for(-1);
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t bytes_max) {
  // A FIFO is opened at once, and then waited for.
  const UniqueFd fd(path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return absl::NotFoundError(std::strerror(errno));
  }
  std::string out;
  char buffer[64u << 10];
  bool told = false;
  for (;;) {
    AwaitText(fd.get(), path, told);
    const ssize_t n = read(fd.get(), buffer, sizeof(buffer));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
      continue;
    }
    if (n < 0) {
      return absl::UnavailableError(std::strerror(errno));
    }
    if (n == 0) {
      return out;
    }
    out.append(buffer, static_cast<size_t>(n));
    if (out.size() > bytes_max) {
      return absl::InvalidArgumentError(absl::StrCat("want at most ", bytes_max, " bytes"));
    }
  }
}

// What starts the agent of `host`, and by srun those of all other nodes but this one.
std::vector<std::string> StepCommand(const JobSpec& spec, const std::string& host,
                                     const std::string& agent_path) {
  if (spec.given_hosts->scheduler == Scheduler::kPbs) {
    return PbsdshCommand(host, agent_path, {"JOB", "KEY", "ADDRESS:PORT"});  // made at the start
  }
  std::vector<std::string> hosts;
  for (const NodeWorkers& node : spec.nodes) {
    if (!StartsHere(spec, node.host)) {
      hosts.push_back(node.host.name);
    }
  }
  for (const std::vector<std::string>& step : StepsFor(*spec.given_hosts, hosts)) {
    if (std::find(step.begin(), step.end(), host) != step.end()) {
      return AgentsCommand(spec, step, agent_path);
    }
  }
  return {};
}

// Started on another machine, which we have not asked anything.
bool IsRemote(const JobSpec& spec, const PlanNode& node) {
  return node.starter == "ssh" || node.starter == "pbsdsh" ||
         (node.starter == "srun" && !InLoneStep(spec));
}

}  // namespace

absl::StatusOr<LaunchPlan> PlanFromHere(const JobSpec& spec, const std::string& agent_path) {
  SshOptions ssh;
  ssh.ssh = spec.ssh;
  ssh.agent_path = agent_path;
  LaunchPlan plan = PlanOf(spec);
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    PlanNode& node = plan.nodes[i];
    if (node.starter == "joins") {
      continue;
    }
    if (spec.way == StartWay::kHosts && !StartsHere(spec, spec.nodes[i].host)) {
      const HostEntry& host = spec.nodes[i].host;
      node.command = spec.given_hosts.has_value() ? StepCommand(spec, host.name, agent_path)
                                                  : SshCommand(ssh, SshTarget(host));
      if (!InLoneStep(spec)) {
        continue;
      }
    } else if (node.starter != "embedded") {
      node.starter = "local";
      node.command = {agent_path, "--stdio"};
    }
    if (node.workers == 0) {
      ASSIGN_OR_RETURN(node.workers, WorkersLikeHere(spec, i));
    }
  }
  if (std::any_of(plan.nodes.begin(), plan.nodes.end(),
                  [&spec](const PlanNode& node) { return IsRemote(spec, node); })) {
    plan.environment = EnvironmentForOthers(spec);
  }
  NumberRanks(plan);
  return plan;
}

int ShowPlan(const JobSpec& spec, const std::string& agent_path) {
  if (spec.yaml) {
    const absl::StatusOr<std::string> file = WriteJobFile(spec);
    return file.ok() ? PrintAnswer(*file) : Refuse(file.status());
  }
  absl::StatusOr<std::optional<DescribedTopology>> described = ReadDescribedTopology();
  if (!described.ok()) {
    return Refuse(described.status());
  }
  JobSpec counted = spec;
  if (described->has_value()) {
    if (const absl::Status status = CountDescribed(**described, counted); !status.ok()) {
      return Refuse(status);
    }
  }
  absl::StatusOr<LaunchPlan> plan = PlanFromHere(counted, agent_path);
  if (!plan.ok()) {
    return Refuse(plan.status());
  }
  if (const absl::Status placed = AddPlaces(counted, *std::move(described), *plan); !placed.ok()) {
    return Refuse(placed);
  }
  return PrintAnswer(spec.json ? PlanJson(*plan) : PlanText(*plan));
}

int ShowEnvironment(const JobSpec& spec) {
  absl::StatusOr<NodeFacts> facts = FactsHere(spec);
  if (!facts.ok()) {
    return Refuse(facts.status());
  }
  absl::StatusOr<LaunchPlan> plan = PlanFromHere(spec, "");
  if (!plan.ok()) {
    return Refuse(plan.status());
  }
  absl::StatusOr<bool> assumed = AssumeCounts(spec, *plan);
  if (!assumed.ok()) {
    return Refuse(assumed.status());
  }
  const uint32_t rank = RankToExplain(spec, *plan);
  absl::StatusOr<Assignment> assignment = AssignmentOf(*plan, rank);
  if (!assignment.ok()) {
    LogError(absl::StrCat("--explain-env: ", assignment.status().message()));
    return kExitUsage;
  }
  const PlanNode& node = plan->nodes[assignment->node_rank.value];
  if (IsRemote(spec, node)) {
    facts->hostname = node.name;
    assumed = true;
  }
  if (*assumed) {
    LogInfo("no other node is asked before the start: they are taken to be like this machine");
  }
  assignment->restarts_max = spec.restart == RestartMode::kNever ? 0 : spec.max_restarts;
  assignment->round.epoch = EpochOf(spec);
  assignment->one_host = spec.way == StartWay::kLocal || spec.way == StartWay::kStandalone;
  const bool numbered = !spec.nodes.empty() || spec.node_rank.has_value();
  WorkPlan work = spec.plan;
  TakeNodeOverrides(spec, NameOfNode(spec, node, *facts),
                    numbered ? std::optional<uint32_t>(node.node_rank) : std::nullopt, work);
  const std::vector<PreparedProgram> programs = PreparePrograms(work, OwnEnvironment());
  const PreparedProgram& program = programs[ProgramOf(work, rank)];
  LocalRank local;
  while (assignment->RankOf(local).value != rank) {
    ++local.value;
  }
  WorkerPlacement placement(work, *facts);
  if (const absl::Status placed =
          placement.PlaceAll(assignment->workers, assignment->one_host && assignment->nodes > 1);
      !placed.ok()) {
    return Refuse(placed);
  }
  const ExplainInput input = {program.plan,
                              *assignment,
                              *facts,
                              program.facts,
                              program.environment,
                              StoreIsAgent(spec.plan.store, programs.front().facts),
                              local,
                              placement.ShareOf(local),
                              placement.topology()};
  return PrintAnswer(spec.json ? ExplainEnvJson(input) : ExplainEnvText(input));
}

Environment PlaceEnvironment(bool ask) {
  Environment out = EnvironmentMap(OwnEnvironment());
  if (AtAPrompt()) {
    out = AtThePrompt(std::move(out));
  }
  out[kOwnHostname] = Hostname();
  if (ask && AsksForGpus(out)) {
    const absl::StatusOr<std::string> job =
        CommandOutput({"scontrol", "--details", "--oneliner", "show", "job", out["SLURM_JOB_ID"]},
                      BootNow() + kScontrolAnswers, kScontrolBytesMax);
    const std::optional<std::string> gpus = job.ok() ? GpusOfNodes(*job, out) : std::nullopt;
    if (gpus.has_value()) {
      out[kGpusOfNodes] = *gpus;
    }
  }
  return out;
}

Environment EnvironmentMap(const std::vector<std::string>& entries) {
  Environment out;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) {
      out.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return out;
}

absl::StatusOr<std::string> ReadHostFile(const std::string& path) {
  return ReadFile(path, kHostFileBytesMax);
}

absl::StatusOr<std::string> ReadJobFile(const std::string& path) {
  return ReadFile(path, kJobFileBytesMax);
}

}  // namespace muster
