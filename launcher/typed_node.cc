#include "launcher/typed_node.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/log_file.h"
#include "agent/io/master_client.h"
#include "agent/io/node_facts.h"
#include "agent/io/program_facts.h"
#include "agent/io/program_files.h"
#include "agent/io/worker_placement.h"
#include "agent/probe/machine_facts.h"
#include "agent/probe/node_checks.h"
#include "launcher/job_run.h"
#include "launcher/meeting_notes.h"
#include "launcher/munge_secret.h"
#include "launcher/preflight.h"
#include "launcher/programs.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/stdin_reader.h"
#include "launcher/typed_place.h"
#include "proto/base/build_info.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/secret.h"
#include "rendezvous/core/why_waiting.h"

namespace muster {

namespace {

// NotFound: the task that serves has no munge. DeadlineExceeded: none serves.
absl::StatusOr<std::string> SecretByMunge(const JobSpec& spec, const Munge& munge) {
  const RendezvousSpec& meeting = spec.rendezvous;
  MungeQuestion question;
  question.host = meeting.host;
  question.port = absl::StrCat(meeting.port);
  question.deadline = BootNow() + meeting.join_timeout;
  question.patience = kNoServerHint;
  question.on_silence = [&spec, &meeting] {
    LogInfo(NoMasterYet(spec, HostPort(meeting.host, meeting.port), "", ""));
  };
  const absl::StatusOr<std::string> credential = AskForCredential(question);
  if (absl::IsDeadlineExceeded(credential.status())) {
    return absl::DeadlineExceededError(absl::StrCat(
        meeting.step, ": no master has answered within ",
        absl::FormatDuration(meeting.join_timeout), ": ", credential.status().message(),
        ": look at what the step's first task says, and at its firewall"));
  }
  RETURN_IF_ERROR(credential.status());
  ASSIGN_OR_RETURN(const std::string payload, munge.Decode(*credential));
  return SecretOfPayload(payload, spec.plan.job_id);
}

// Whether --local-addr is an address of this machine; what else it may be is said.
bool IsHere(const std::string& local_addr, const NodeFacts& facts) {
  const std::vector<std::string>& own = facts.addresses;
  if (std::find(own.begin(), own.end(), local_addr) != own.end()) {
    return true;
  }
  if (!ResolvesHere(local_addr)) {
    LogWarning(absl::StrCat("--local-addr ", local_addr, " is not this machine, which has ",
                            FewNames(own),
                            ": right where others reach it so from outside (NAT, a published "
                            "port); else leave the option out"));
  }
  return false;
}

}  // namespace

std::string NoMasterYet(const JobSpec& spec, const std::string& place, const std::string& taken,
                        const std::string& tried) {
  const RendezvousSpec& meeting = spec.rendezvous;
  if (!taken.empty()) {
    return absl::StrCat("no master answers at ", place, ", and none can be started there: ", taken);
  }
  if (!meeting.others.empty()) {
    return absl::StrCat("no master that leads answers yet: ", tried.empty() ? place : tried,
                        "; they are asked again and again. Each is a muster-rendezvous with the "
                        "same --rdzv-store");
  }
  const std::string silent =
      absl::StrCat("no master answers at ", place, " yet; it is asked again and again. ");
  if (!meeting.step.empty()) {
    return absl::StrCat(silent, "The task there says why if it has ended (with srun -K this one ",
                        "ends, too); else look at its firewall");
  }
  if (spec.node_rank.has_value() && *spec.node_rank > 0) {
    return absl::StrCat(silent, "The launch of node rank 0 serves there, or a muster-rendezvous: ",
                        "start it, or check that the name means the same there, and its firewall");
  }
  return absl::StrCat(silent, "Start the same command on that host, or check that the name means ",
                      "the same there (--serve makes a node the master), and its firewall");
}

void MasterWait::Tried(const std::string& told) {
  tried_ = told;
  if (!place_.empty()) {
    TellStranger();
  }
}

void MasterWait::Answered() { tried_.clear(); }

void MasterWait::Due(const std::string& place, const std::string& taken) {
  place_ = taken.empty() ? place : "";  // else what listens there is named
  if (place_.empty() || !TellStranger()) {
    LogInfo(NoMasterYet(spec_, place, taken, tried_));
  }
}

bool MasterWait::TellStranger() {
  const std::string stranger = StrangerThere(spec_, place_, tried_);
  if (!stranger.empty() && !std::exchange(told_, true)) {
    LogWarning(stranger);
  }
  return !stranger.empty();
}

void SayDoubts(const JobSpec& spec, NodeFacts facts, const rlimit& worker_files,
               const EnvBase& environment) {
  if (spec.rendezvous.host == "localhost" || IsLoopback(spec.rendezvous.host)) {
    facts.address = "127.0.0.1";  // all nodes are this machine
  }
  for (const std::string& doubt : DoubtsOfNode(
           facts, worker_files, [&](const char* name) { return environment.Find(name); })) {
    LogWarning(absl::StrCat(facts.hostname, ": ", doubt));
  }
}

absl::StatusOr<TypedSecret> TypedSecretOf(const JobSpec& spec) {
  const bool in_step = !spec.rendezvous.step.empty();
  const bool serves = spec.rendezvous.is_host.value_or(false);
  const absl::StatusOr<Munge> munge = in_step && !spec.insecure && spec.secret_file.empty()
                                          ? Munge::Load()
                                          : absl::NotFoundError("not wanted");
  if (munge.ok() && !serves && munge->Encode("").ok()) {
    absl::StatusOr<std::string> given = SecretByMunge(spec, *munge);
    if (given.ok()) {
      return TypedSecret{*std::move(given), ""};
    }
    if (absl::IsDeadlineExceeded(given.status())) {
      return given.status();
    }
    if (!absl::IsNotFound(given.status())) {
      LogWarning(absl::StrCat(
          "the job's secret is not to be had by Slurm's munge: ", given.status().message(),
          ": do node and first node have one munge.key? Trying ~/.config/muster/secret"));
    }
  }
  ASSIGN_OR_RETURN(std::string secret, SecretFor(spec.insecure, spec.secret_file));
  TypedSecret out{std::move(secret), ""};
  if (munge.ok() && serves) {
    out.credential = munge->Encode(MungePayload(spec.plan.job_id, out.secret)).value_or("");
  }
  return out;
}

std::string ServesThisMachine(const JobSpec& spec, const std::string& hostname) {
  const RendezvousSpec& meeting = spec.rendezvous;
  const OptionId place =
      spec.Has(OptionId::kRdzvEndpoint) ? OptionId::kRdzvEndpoint : OptionId::kMasterAddr;
  const bool loopback = meeting.host == "localhost" || IsLoopback(meeting.host);
  if (!loopback || !spec.Has(place)) {
    return "";
  }
  return absl::StrCat(spec.Said(place),
                      " is each machine's own: nodes typed on this one come together there; for "
                      "other machines say ",
                      HostPort(hostname, meeting.port), " on all");
}

void TellOfPlace(const JobSpec& spec, const std::string& hostname) {
  if (const std::string alone = ServesThisMachine(spec, hostname); !alone.empty()) {
    LogInfo(alone);
  } else if (spec.rendezvous.is_static && !ResolvesHere(spec.rendezvous.host)) {
    LogWarning(ServesElsewhere(spec, hostname));
  }
}

bool ShallServe(const JobSpec& spec) {
  if (!spec.rendezvous.others.empty()) {
    return false;
  }
  const bool rank_says = spec.rendezvous.is_static && spec.node_rank.has_value();
  if (spec.way == StartWay::kServe || spec.serve || spec.rendezvous.is_host.value_or(false)) {
    return true;
  }
  if (spec.rendezvous.is_host.has_value()) {
    return false;
  }
  if (rank_says) {
    return *spec.node_rank == 0;
  }
  return ResolvesHere(spec.rendezvous.host);
}

absl::StatusOr<AgentLoop::Options> TypedAgent(JobSpec& spec) {
  AgentLoop::Options options;
  NodeQuery query = OwnQuery(spec.plan.binding.cpu_list);
  query.other_nodes = true;
  query.iface = spec.plan.iface;
  query.route_to = spec.rendezvous.host;
  query.route_is_hint = spec.pod.has_value();  // the first pod's name comes when it does
  ASSIGN_OR_RETURN(options.facts, ReadNodeFacts(query));
  const bool elsewhere = !spec.local_addr.empty() && !IsHere(spec.local_addr, options.facts);
  if (!spec.local_addr.empty()) {
    options.facts.address = spec.local_addr;
  }
  CountObjects(options.facts, spec.plan);
  ASSIGN_OR_RETURN(const uint32_t workers, WorkersOnNode(spec.plan, options.facts));
  RETURN_IF_ERROR(MakeLogFolder(spec.plan.output.log_dir));
  FinishOutputOptions(spec, /*many_workers=*/true, spec.plan);
  if (StdinReader::NothingThere()) {
    spec.plan.stdin_mode = StdinMode::kNone;
  }
  if (spec.rendezvous.is_static && spec.plan.store == StoreMode::kAuto) {
    spec.plan.store = StoreMode::kAgent;  // the port is ours: rank 0 could not bind it
  } else if (spec.rendezvous.is_static && spec.plan.store == StoreMode::kWorker) {
    spec.master_port.reset();  // rank 0 binds another one, reserved for it
  }
  options.plan = spec.plan;
  if (!spec.rendezvous.is_static && spec.node_rank.value_or(0) == 0) {
    options.store_port = spec.master_port.value_or(0);
  }
  options.store_on_all = !spec.master_addr.empty() || elsewhere;
  options.programs = PreparePrograms(spec.plan, OwnEnvironment());
  options.config.tell_pids = spec.plan.tell_pids;
  options.config.join_timeout = spec.rendezvous.join_timeout;
  Join& join = options.config.join;
  join.key = PlaceKey(spec, options.facts.hostname);
  join.key_is_exact = spec.node_rank.has_value();
  join.node_rank = spec.node_rank.has_value() ? static_cast<int32_t>(*spec.node_rank) : -1;
  join.life = NewLife();
  join.hostname = options.facts.hostname;
  join.address = options.facts.address;
  join.interface = options.facts.interface;
  if (PreflightWanted(spec)) {
    join.program_files = FilesToCompare(options.programs);
  }
  join.addresses = options.facts.addresses;
  join.workers = workers;
  return options;
}

absl::StatusOr<std::unique_ptr<FileMeeting>> GoToMeeting(uv_loop_t* loop, JobSpec& spec) {
  RendezvousPoint own;
  own.job_id = spec.plan.job_id;
  own.build = std::string(BuildName());
  own.host = Hostname();
  own.address = spec.local_addr;
  if (own.address.empty()) {
    NodeQuery query;
    query.other_nodes = true;
    query.iface = spec.plan.iface;
    ASSIGN_OR_RETURN(const LocalAddress chosen, ChooseAddress(query));
    own.address = chosen.address;
  }
  absl::StatusOr<std::unique_ptr<FileMeeting>> meeting = MeetAtFile(
      loop, spec.rendezvous.file, std::move(own), spec.plan.ports, spec.rendezvous.join_timeout);
  if (!meeting.ok()) {
    return absl::Status(meeting.status().code(),
                        absl::StrCat("--rdzv-endpoint file://", spec.rendezvous.file, ": ",
                                     meeting.status().message()));
  }
  const RendezvousPoint& point = (*meeting)->point();
  const bool serves = (*meeting)->serves();
  spec.rendezvous.host = point.address;
  spec.rendezvous.port = point.port;
  spec.rendezvous.is_host = spec.serve = serves;
  LogDebug(absl::StrCat(spec.rendezvous.file, ": ", serves ? "this node" : point.host, " serves"));
  return meeting;
}

}  // namespace muster
