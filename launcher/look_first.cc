#include "launcher/look_first.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/node_facts.h"
#include "agent/io/program_facts.h"
#include "launcher/explain_env.h"
#include "launcher/job_run.h"
#include "launcher/plan.h"
#include "launcher/run_hosts.h"
#include "launcher/schedule/ssh_starter.h"
#include "proto/base/log.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

constexpr size_t kHostFileBytesMax = 16u << 20;

int Print(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0
             ? 0
             : kExitFailed;
}

absl::StatusOr<NodeFacts> FactsHere(const JobSpec& spec) {
  NodeQuery query;
  query.other_nodes = spec.way != StartWay::kLocal && spec.way != StartWay::kStandalone;
  query.iface = spec.plan.iface;
  query.route_to = spec.rendezvous.host;
  query.cuda_visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return ReadNodeFacts(query);
}

// Nodes as the plan shows them; of a job typed on every node only this one is known.
std::vector<NodeWorkers> NodesOf(const JobSpec& spec, const NodeFacts& facts) {
  if (!spec.nodes.empty()) {
    return spec.nodes;
  }
  NodeWorkers here;
  here.host.name = facts.hostname;
  here.wanted = spec.plan.workers_wanted;
  here.workers = spec.plan.workers;
  return {here};
}

}  // namespace

int ShowPlan(const JobSpec& spec, const std::string& agent_path) {
  const absl::StatusOr<NodeFacts> facts = FactsHere(spec);
  if (!facts.ok()) {
    LogError(facts.status().message());
    return kExitUsage;
  }
  SshOptions ssh;
  ssh.ssh = spec.ssh;
  ssh.agent_path = agent_path;
  LaunchPlan plan;
  plan.argv = spec.plan.argv;
  plan.notes = spec.notes;
  uint32_t rank = 0;
  uint32_t node_rank = 0;
  for (const NodeWorkers& node : NodesOf(spec, *facts)) {
    WorkPlan work = spec.plan;
    work.workers_wanted = node.wanted;
    work.workers = node.workers;
    const absl::StatusOr<uint32_t> workers = WorkersOnNode(work, *facts);
    PlanNode one;
    one.node_rank = node_rank++;
    one.name = node.host.name;
    one.workers = workers.ok() ? *workers : node.workers;
    one.rank_first = rank;
    rank += one.workers;
    const bool here = spec.way == StartWay::kStandalone || IsThisMachine(node.host.name);
    one.starter = spec.way == StartWay::kLocal                                   ? "embedded"
                  : spec.way == StartWay::kTyped || spec.way == StartWay::kServe ? "joins"
                  : here                                                         ? "local"
                                                                                 : "ssh";
    if (one.starter == "ssh") {
      one.command = SshCommand(ssh, node.host.name);
    } else if (one.starter == "local") {
      one.command = {agent_path, "--stdio"};
    }
    plan.nodes.push_back(std::move(one));
  }
  plan.world_size = rank;
  if (spec.way == StartWay::kHosts) {
    plan.environment = EnvironmentToForward(OwnEnvironment());
  }
  return Print(spec.json ? PlanJson(plan) : PlanText(plan));
}

int ShowEnvironment(const JobSpec& spec) {
  const absl::StatusOr<NodeFacts> facts = FactsHere(spec);
  if (!facts.ok()) {
    LogError(facts.status().message());
    return kExitUsage;
  }
  const EnvBase base = FilterEnvironment(OwnEnvironment(), spec.plan);
  const ProgramFacts program = LookAtProgram(spec.plan.argv, spec.plan.wdir, base);
  // The world as far as it is known before the start: the rank asked for decides the node.
  Assignment assignment;
  uint32_t first = 0;
  bool found = false;
  for (const NodeWorkers& node : NodesOf(spec, *facts)) {
    WorkPlan work = spec.plan;
    work.workers_wanted = node.wanted;
    work.workers = node.workers;
    const absl::StatusOr<uint32_t> workers = WorkersOnNode(work, *facts);
    if (!workers.ok()) {
      LogError(workers.status().message());
      return kExitUsage;
    }
    if (!found && *spec.explain_env < first + *workers) {
      found = true;
      assignment.node_rank = NodeRank{assignment.nodes};
      assignment.rank_first = Rank{first};
      assignment.workers = *workers;
    }
    first += *workers;
    ++assignment.nodes;
  }
  if (spec.nodes.empty() && spec.nodes_max > 1) {
    first *= spec.nodes_max;
    assignment.nodes = spec.nodes_max;
  }
  if (!found) {
    LogError(
        absl::StrCat("--explain-env: want a rank of 0..", first - 1, ", got ", *spec.explain_env));
    return kExitUsage;
  }
  assignment.world_size = first;
  assignment.restarts_max = spec.max_restarts;
  assignment.one_host = spec.way == StartWay::kLocal || spec.way == StartWay::kStandalone;
  const ExplainInput input = {spec.plan,
                              assignment,
                              *facts,
                              program,
                              base,
                              StoreIsAgent(spec.plan.store, program),
                              LocalRank{*spec.explain_env - assignment.rank_first.value}};
  return Print(spec.json ? ExplainEnvJson(input) : ExplainEnvText(input));
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
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return absl::NotFoundError(std::strerror(errno));
  }
  std::string out;
  char buffer[64u << 10];
  for (;;) {
    const ssize_t n = read(fd.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return absl::UnavailableError(std::strerror(errno));
    }
    if (n == 0) {
      return out;
    }
    out.append(buffer, static_cast<size_t>(n));
    if (out.size() > kHostFileBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("want at most ", kHostFileBytesMax, " bytes"));
    }
  }
}

}  // namespace muster
