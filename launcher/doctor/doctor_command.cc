#include "launcher/doctor/doctor_command.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "launcher/resolve.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/slurm.h"
#include "launcher/schedule/ssh_starter.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// How long the nodes may take to come, and the last of them after the first one, where --rdzv-conf
// does not say less.
constexpr char kPatience[] = "join_timeout=60,last_call_timeout=";
constexpr absl::Duration kLastCallMax = absl::Seconds(15);
// A bound for everything: nobody waits for a doctor any longer.
constexpr char kTimeout[] = "150";

// Options that mean for the probes what they mean for the job.
constexpr OptionId kHandedOn[] = {
    OptionId::kLocalAddr, OptionId::kIface,      OptionId::kEnvNone,
    OptionId::kPrologue,  OptionId::kSecretFile, OptionId::kInsecure,
};

void HandOn(const JobSpec& spec, std::vector<std::string>& words) {
  for (const OptionId id : kHandedOn) {
    if (!spec.Has(id)) {
      continue;
    }
    for (const std::string& value : ValuesOf(spec, id)) {
      const bool flag = OptionOf(id).kind == ArgumentKind::kNone;
      words.push_back(flag ? std::string(OptionName(id))
                           : absl::StrCat(OptionName(id), "=", value));
    }
  }
  for (const std::string& variable : spec.forward) {
    words.insert(words.end(), {"-x", variable});
  }
  std::vector<std::string> ssh_words;
  for (size_t i = 1; i < spec.ssh.size(); ++i) {
    ssh_words.push_back(ShellQuote(spec.ssh[i]));
  }
  words.push_back(absl::StrCat("--ssh=", spec.ssh.front()));
  if (!ssh_words.empty()) {
    words.push_back(absl::StrCat("--ssh-args=", absl::StrJoin(ssh_words, " ")));
  }
  if (!spec.plan.ports.Any()) {
    words.push_back(absl::StrCat("--port-range=", spec.plan.ports.Text()));
  }
}

// As the job's own; where that has no program, with one that stands for it.
absl::StatusOr<ParsedCommand> ParseJob(const std::vector<std::string>& words,
                                       const Environment& environment,
                                       const FileReader& read_job_file, bool& has_program) {
  absl::StatusOr<ParsedCommand> alone = ParseCommandLine(words, environment, read_job_file);
  has_program = alone.ok();
  if (has_program) {
    return alone;
  }
  std::vector<std::string> with_program = words;
  with_program.emplace_back("true");
  absl::StatusOr<ParsedCommand> completed =
      ParseCommandLine(with_program, environment, read_job_file);
  return completed.ok()
             ? std::move(completed)
             : absl::Status(alone.status().code(),
                            absl::StrCat("launch doctor: ", alone.status().message(),
                                         "; 'launch doctor --help' says which options count"));
}

// Where the probes run; wherever launch starts the agents, or is the agent.
void AddNodes(const JobSpec& spec, const std::string& host_file, std::vector<std::string>& words) {
  const size_t nodes = spec.nodes.size();
  words.insert(words.end(), {"--nproc-per-node", "1", "--nnodes"});
  if (spec.way != StartWay::kHosts) {
    words.push_back(absl::StrCat(nodes));
    if (spec.way == StartWay::kStandalone) {
      words.emplace_back("--standalone");
    }
    return;
  }
  // Those that cannot be started are not waited for: the others have their own to tell.
  words.push_back(nodes == 1 ? "1" : absl::StrCat("1:", nodes));
  if (!spec.given_hosts.has_value()) {
    words.insert(words.end(), {"--hostfile", host_file});
    return;
  }
  words.insert(words.end(), {"--gpu-mode", "all"});  // whatever the job's tasks would see
  for (const std::string& excluded : spec.exclude_texts) {
    words.insert(words.end(), {"--exclude", excluded});
  }
}

constexpr char kHelp[] =
    "launch doctor [--json] [OPTIONS] [PROGRAM]    examine the nodes on which a job would run\n"
    "  OPTIONS, PROGRAM  as for the job: --hosts, --hostfile, --standalone; in a Slurm job its "
    "nodes\n"
    "                    are taken. --iface, --port-range, --wdir, -x, --prologue and those of "
    "ssh\n"
    "                    count, the others do not matter. With a PROGRAM its file is compared, "
    "too.\n"
    "  --json            as JSON, with all that each node said\n"
    "\n"
    "Starts a probe on each node, which looks at names, addresses, connections (all pairs up to "
    "16\n"
    "nodes, a sample above), large packets, speed, proxies, clock, limits, /dev/shm, disks, "
    "cgroup,\n"
    "CPUs, GPUs, versions. A line for each check; for what is not well also what to do about it.\n"
    "Exit status: 0 if nothing is worse than a warning, 1 if something is, 2 usage.\n";

}  // namespace

bool IsDoctorCommand(absl::string_view word) { return word == "doctor"; }

std::string DoctorHelp() { return kHelp; }

absl::StatusOr<DoctorCommand> ParseDoctorCommand(const std::vector<std::string>& words,
                                                 const Environment& environment,
                                                 const FileReader& read_job_file,
                                                 const FileReader& read_host_file) {
  DoctorCommand out;
  ASSIGN_OR_RETURN(ParsedCommand command, ParseJob({words.begin() + 1, words.end()}, environment,
                                                   read_job_file, out.has_program));
  out.spec = std::move(command.spec);
  out.help = command.action != CommandAction::kRun;
  if (out.help) {
    return out;
  }
  out.json = std::exchange(out.spec.json, false);
  out.spec.given.erase(OptionId::kJson);
  RETURN_IF_ERROR(ResolveHosts(out.spec, read_host_file, environment));
  if (!out.spec.rendezvous.step.empty()) {
    return absl::InvalidArgumentError(
        "launch doctor: srun has started it: leave srun out, and it examines the job's nodes");
  }
  if (out.spec.way == StartWay::kTyped || out.spec.way == StartWay::kServe) {
    return absl::InvalidArgumentError(
        absl::StrCat("launch doctor: ", out.spec.Said(OptionId::kRdzvEndpoint),
                     " does not say which nodes to examine: name them with --hosts or --hostfile"));
  }
  return out;
}

std::string DoctorHosts(const JobSpec& spec) {
  std::string out;
  for (const NodeWorkers& node : spec.nodes) {
    const HostEntry& host = node.host;
    absl::StrAppend(&out, IsIpv6(host.name) ? absl::StrCat("[", host.name, "]") : host.name,
                    host.user.empty() ? "" : absl::StrCat(" user=", host.user),
                    host.port == 0 ? "" : absl::StrCat(" port=", host.port), "\n");
  }
  return out;
}

std::vector<std::string> ProbeJob(const JobSpec& spec, const std::string& agent_path,
                                  const std::string& host_file, const std::string& request) {
  const absl::Duration last_call = std::min(spec.rendezvous.last_call, kLastCallMax);
  std::vector<std::string> words = {"--no-preflight",  // nor a doctor of its own
                                    "--no-python",
                                    "--stdin",
                                    "all",
                                    "--wdir",
                                    "/",
                                    "--timeout",
                                    kTimeout,
                                    "--rdzv-conf",
                                    absl::StrCat(kPatience, absl::ToDoubleSeconds(last_call)),
                                    "--store",
                                    "worker",
                                    "--on-failure",
                                    "continue",
                                    "--log-prefix",
                                    absl::StrCat("{node_rank} {host}", kProbePrefixEnd)};
  AddNodes(spec, host_file, words);
  HandOn(spec, words);
  words.emplace_back("--");
  if (spec.way == StartWay::kLocal) {  // launch is the agent
    words.insert(words.end(), {agent_path, "--probe", request});
  } else {  // which may have come through ssh, and have no name on its node
    words.insert(words.end(), {"sh", "-c", "exec /proc/$PPID/exe --probe \"$0\"", request});
  }
  return words;
}

AgentStart StartOf(const JobSpec& spec, const HostEntry& host, bool here,
                   const std::string& agent_path) {
  AgentStart out;
  const std::string agent = absl::StrCat(ShellQuote(agent_path), " --build");
  if (here) {
    out.means = StartMeans::kChild;
    out.by_hand = agent;
  } else if (spec.given_hosts.has_value()) {
    out.means = StartMeans::kStep;
    const std::string group = HetGroupOption(*spec.given_hosts, host.name).value_or("");
    out.by_hand = spec.given_hosts->scheduler == Scheduler::kPbs
                      ? absl::StrCat("pbsdsh -h ", host.name, " -- ", agent)
                      : absl::StrCat("srun ", group, group.empty() ? "" : " ",
                                     "--overlap -N1 -n1 -w ", host.name, " ", agent);
  } else {
    out.means = StartMeans::kSsh;
    out.by_hand = SshByHand(spec.ssh, SshTarget(host));
  }
  return out;
}

}  // namespace muster
