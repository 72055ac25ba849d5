#include "launcher/remote_starter.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/core/env_filter.h"
#include "agent/io/node_facts.h"
#include "agent/io/torch_store_port.h"
#include "launcher/first_node.h"
#include "launcher/job_run.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/pbs.h"
#include "launcher/schedule/slurm.h"
#include "launcher/schedule/slurm_stepd.h"
#include "launcher/schedule/ssh_starter.h"
#include "launcher/schedule/step_starter.h"
#include "proto/base/private_file.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// Mostly in 0.2 s. Its agent can be started without Slurm, too (NodeStarts), so one whose
// controller is down or busy is not waited for as long as where the nodes are others.
constexpr absl::Duration kLoneStepAnswers = absl::Seconds(15);

// By which the other nodes reach us.
absl::StatusOr<std::string> OwnAddress(const JobSpec& spec) {
  if (!spec.local_addr.empty()) {
    return spec.local_addr;
  }
  NodeQuery query;
  query.other_nodes = true;
  query.iface = spec.plan.iface;
  query.route_to = OtherMachine(spec);
  query.route_is_hint = true;
  ASSIGN_OR_RETURN(LocalAddress chosen, ChooseAddress(query));
  return std::move(chosen.address);
}

absl::StatusOr<StepDoor> OpenDoor(const JobSpec& spec) {
  if (InLoneStep(spec)) {  // nobody else is to call
    ASSIGN_OR_RETURN(BoundPort bound, BindStorePort("127.0.0.1", 0, spec.plan.ports));
    return StepDoor{std::move(bound.fd), {HostPort("127.0.0.1", bound.port)}};
  }
  ASSIGN_OR_RETURN(const std::string address, OwnAddress(spec));
  ASSIGN_OR_RETURN(BoundPort bound, BindStorePort("", 0, spec.plan.ports));
  return StepDoor{std::move(bound.fd), {HostPort(address, bound.port)}};
}

// The same again for an agent that is started when all others have called, and the file is gone:
// the words of its command name it.
absl::Status PutBackSecretFile(const JobSecret& secret) {
  if (secret.file.empty() || access(secret.file.c_str(), F_OK) == 0) {
    return absl::OkStatus();
  }
  const absl::Status written = ReplacePrivateFile(secret.file, secret.secret + "\n");
  return written.ok() ? written
                      : absl::Status(written.code(), absl::StrCat("its agent needs the secret: ",
                                                                  written.message()));
}

}  // namespace

std::string OtherMachine(const JobSpec& spec) {
  const auto other =
      std::find_if(spec.nodes.begin(), spec.nodes.end(),
                   [&spec](const NodeWorkers& node) { return !IsHere(spec, node.host); });
  return other == spec.nodes.end() ? "" : other->host.name;
}

std::vector<std::string> AgentsCommand(const JobSpec& spec, const std::vector<std::string>& hosts,
                                       const std::string& agent_path) {
  std::vector<std::string> out = SrunCommand(*spec.given_hosts, hosts, agent_path);
  std::vector<std::string> own;
  for (const std::string& entry : OwnEnvironment()) {
    const absl::string_view name = NameOf(entry);
    if (InLoneStep(spec) && (ChoosesDevices(name) || name == "SLURM_JOB_NAME")) {
      own.push_back(entry);
    }
  }
  if (!own.empty()) {  // srun sets others: the user may have chosen from the GPUs
    own.insert(own.begin(), "env");
    out.insert(std::find(out.begin(), out.end(), agent_path), own.begin(), own.end());
  }
  return out;
}

std::unique_ptr<Starter> MakeRemoteStarter(
    uv_loop_t* loop, const JobSpec& spec, const JobSecret& secret, const std::string& agent_path,
    std::function<void(const std::string& why)> on_unreachable) {
  if (!spec.given_hosts.has_value()) {
    SshOptions ssh;
    ssh.ssh = spec.ssh;
    ssh.agent_path = agent_path;
    return MakeSshStarter(loop, std::move(ssh));
  }
  StepOptions out;
  out.program = StepProgram(spec.given_hosts->scheduler);
  if (spec.given_hosts->scheduler == Scheduler::kPbs) {
    out.command_of_one = [agent_path, key = secret.key](const std::string& host,
                                                        const DialTicket& ticket) {
      return PbsdshCommand(host, agent_path, TicketWords(ticket, key));
    };
    // It would pass on to whole sessions elsewhere what PBS sends to ours, as launch does.
    out.leads = ChildLeads::kSession;
    out.end_of = TaskEnd;
    out.agents_outlive = true;
    out.prepare = [secret] { return PutBackSecretFile(secret); };
    out.on_all_called = [file = secret.file] { RemoveSecretFile(file); };
  } else {
    out.steps = [&spec](const std::vector<std::string>& hosts) {
      return StepsFor(*spec.given_hosts, hosts);
    };
    out.command = [&spec, agent_path](const std::vector<std::string>& hosts) {
      return AgentsCommand(spec, hosts, agent_path);
    };
    out.end_of = [](absl::string_view line) {
      StepEnd end = StepdEnd(line);
      return end.how.empty() ? SrunEnd(line) : end;
    };
    if (InLoneStep(spec)) {
      out.answer_timeout = kLoneStepAnswers;
      out.late_hint.clear();  // it is this machine
    }
    out.environment = SrunEnvironment(OwnEnvironment());
  }
  out.job_id = spec.plan.job_id;
  out.secret = secret.secret;
  if (MayServeOnFirstNode(spec)) {
    out.on_unreachable = std::move(on_unreachable);
  }
  out.listen = [&spec] { return OpenDoor(spec); };
  return MakeStepStarter(loop, std::move(out));
}

}  // namespace muster
