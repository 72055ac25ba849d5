// muster-agent: one per node and job, started by `launch` through ssh or as its child. Not for
// typing by hand.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "agent/core/ship_dir.h"
#include "agent/core/spare_ports.h"
#include "agent/io/agent_loop.h"
#include "agent/io/channel_relay.h"
#include "agent/io/dial.h"
#include "agent/io/log_file.h"
#include "agent/io/master_client.h"
#include "agent/io/node_facts.h"
#include "agent/io/node_hold.h"
#include "agent/io/program_facts.h"
#include "agent/io/program_files.h"
#include "agent/io/program_giver.h"
#include "agent/io/shepherd.h"
#include "agent/io/ship_taker.h"
#include "agent/io/thread.h"
#include "agent/io/torch_store_port.h"
#include "agent/io/worker_limits.h"
#include "agent/probe/machine_facts.h"
#include "agent/probe/node_checks.h"
#include "agent/probe/run_probe.h"
#include "proto/base/build_info.h"
#include "proto/base/clock.h"
#include "proto/base/core_limit.h"
#include "proto/base/heap.h"
#include "proto/base/log.h"
#include "proto/base/passed_signals.h"
#include "proto/base/signal_mask.h"
#include "proto/base/status_macros.h"
#include "proto/wire/bootstrap.h"
#include "proto/wire/grpc_runtime.h"
#include "proto/wire/uv_handles.h"

namespace muster {
namespace {

constexpr absl::Duration kBootstrapWithin = absl::Seconds(60);
// While the loop stands still: less than a lease. The rest goes when it has ended.
constexpr absl::Duration kRemoveWithin = absl::Milliseconds(500);

constexpr char kHelp[] =
    "muster-agent runs the workers of one node for `launch`, which starts it by itself:\n"
    "  muster-agent --stdio    take orders on stdin and stdout (what launch does, through ssh or "
    "directly)\n"
    "  muster-agent --stdio BUILD SCRIPT    the same; one of another build becomes `sh -c SCRIPT`\n"
    "  muster-agent --dial [NODE]    read on stdin whom to call, and take orders there, as node "
    "NODE "
    "(SLURMD_NODENAME)\n"
    "  muster-agent --dial NODE JOB KEY ADDRESS:PORT...    the same, by words: KEY is cookie:NONCE "
    "(PBS_JOBCOOKIE), file:PATH or -\n"
    "  muster-agent --probe REQUEST    say what `launch doctor` wants to know of this node\n"
    "  muster-agent --build    print the build; both sides of a job must be of the same\n"
    "  muster-agent --version, --help\n";

absl::StatusOr<NodeFacts> Facts(const AgentBootstrap& bootstrap) {
  NodeQuery query = OwnQuery(bootstrap.plan.binding.cpu_list);
  query.other_nodes = !bootstrap.plan.standalone;
  query.iface = bootstrap.plan.iface;
  query.route_to = bootstrap.route_to;
  query.route_is_hint = true;
  const char* ssh = std::getenv("SSH_CONNECTION");
  query.ssh_connection = ssh == nullptr ? "" : ssh;
  ASSIGN_OR_RETURN(NodeFacts facts, ReadNodeFacts(query));
  if (!bootstrap.join.address.empty()) {
    facts.address = bootstrap.join.address;  // --standalone: the loopback address of this node
  }
  return facts;
}

int Fail(const absl::Status& status) {
  LogError(status.message());
  return 1;
}

// What launch says comes in, and what it is told goes out.
struct Channel {
  std::unique_ptr<TlsThread> tls;  // that both go through; null: none. After them, so before here
  UniqueFd in;
  UniqueFd out;
  bool dialed = false;
  bool prepared = false;  // PrepareForGrpc
  std::string secret;     // of the ticket; else it comes with the bootstrap
};

// stdin and stdout are the channel; from now on nothing else may touch them.
Channel TakeChannel() {
  Channel channel;
  channel.in.Reset(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  channel.out.Reset(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  dup2(null.get(), STDIN_FILENO);
  dup2(null.get(), STDOUT_FILENO);
  return channel;
}

// The files that launch ships, if any; then the workers run where they are.
absl::StatusOr<std::optional<ShippedFolder>> Shipped(AgentBootstrap& bootstrap,
                                                     const NodeFacts& facts,
                                                     const Channel& channel) {
  if (!bootstrap.ship.has_value()) {
    return std::nullopt;
  }
  ShipTakerOptions options;
  options.terms = *bootstrap.ship;
  options.in = channel.in.get();
  options.out = channel.out.get();
  options.root = ShipRoot(bootstrap.plan);
  options.address = facts.address;
  options.only_there = bootstrap.plan.standalone;
  options.ports = bootstrap.plan.ports;
  options.secret = bootstrap.secret;
  options.job_id = bootstrap.job_id;
  // Until there is a shepherd, only we can remove the folder: the channel's end is what stops us.
  const auto on_term = signal(SIGTERM, [](int) {});
  absl::StatusOr<ShippedFolder> folder = TakeShipped(options);
  signal(SIGTERM, on_term);
  RETURN_IF_ERROR(folder.status());
  RunInShipDir(folder->path(), bootstrap.plan);
  return *std::move(folder);
}

// What the agent loop needs, from the starter's words and this machine.
absl::StatusOr<AgentLoop::Options> OptionsOf(AgentBootstrap& bootstrap, NodeFacts facts) {
  AgentLoop::Options options;
  options.facts = std::move(facts);
  CountObjects(options.facts, bootstrap.plan);
  ASSIGN_OR_RETURN(const uint32_t workers, WorkersOnNode(bootstrap.plan, options.facts));
  RETURN_IF_ERROR(CheckPlacement(bootstrap.plan, options.facts, workers));
  RETURN_IF_ERROR(MakeLogFolder(bootstrap.plan.output.log_dir));
  if (bootstrap.join.node_rank <= 0) {
    options.store_port = bootstrap.terms.master_port;
  }
  options.store_on_all = !bootstrap.terms.master_addr.empty();
  options.secret = bootstrap.secret;
  options.plan = std::move(bootstrap.plan);
  options.programs = PreparePrograms(options.plan, OwnEnvironment());
  options.config.tell_pids = options.plan.tell_pids;
  options.config.hold = options.plan.hold;
  options.config.join_timeout = bootstrap.terms.join_timeout;
  options.config.grace = bootstrap.terms.grace;
  Join& join = options.config.join;
  join = std::move(bootstrap.join);
  if (join.hostname.empty()) {
    join.hostname = options.facts.hostname;
  }
  join.address = options.facts.address;
  join.interface = options.facts.interface;
  if (bootstrap.preflight) {
    join.program_files = FilesToCompare(options.programs);
  }
  join.addresses = options.facts.addresses;
  join.workers = workers;
  join.life = NewLife();
  return options;
}

// What a scheduler sends to the tasks of a step: launch hears it from us. Blocked until the loop is
// there to take it, so that none is lost or ends us.
void MaskSchedulerSignals(int how) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signo : kPassedSignals) {
    sigaddset(&set, signo);
  }
  pthread_sigmask(how, &set, nullptr);
}

std::vector<UvSignal> HearScheduler(uv_loop_t* loop, AgentLoop& agent) {
  std::vector<UvSignal> out;
  for (const int signo : kPassedSignals) {
    out.emplace_back(loop, signo, [&agent, signo] { agent.SchedulerSignal(signo); });
    out.back().Unref();
  }
  MaskSchedulerSignals(SIG_UNBLOCK);
  return out;
}

// The channel's end is what stops an agent that launch has started itself: a terminal's signals
// reach launch, which tells us, and so do all of PBS, which tells each process of the first host.
// Elsewhere SIGTERM ends this node.
void LeaveSignalsToLaunch() {
  const bool in_pbs = std::getenv("PBS_JOBID") != nullptr;
  for (const int signo : kPassedSignals) {
    if (in_pbs || signo != SIGTERM) {
      signal(signo, [](int) {});  // a handler: what is ignored would stay ignored in the workers
    }
  }
}

std::vector<std::string> Doubts(const AgentLoop::Options& options, const NodeLimits& limits) {
  const auto files =
      std::find_if(limits.limits.begin(), limits.limits.end(),
                   [](const ProcessLimit& limit) { return limit.resource == RLIMIT_NOFILE; });
  const EnvBase& environment = options.programs.front().environment;
  return DoubtsOfNode(options.facts, files->value,
                      [&](const char* name) { return environment.Find(name); });
}

// Until the job is over; the agent's exit status. `dialed`: that is 0 where launch knows the job's,
// for a scheduler takes any other for a failure of its own step.
int RunLoop(const AgentBootstrap& bootstrap, AgentLoop::Options options, ShepherdProcess shepherd,
            ChannelRelay& relay, bool dialed) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  int code = 1;
  bool ended = false;
  {
    MasterClientOptions client_options;
    client_options.socket = relay.TakeSocket();
    client_options.nonce = bootstrap.nonce;
    client_options.secret = bootstrap.secret;
    client_options.job_id = bootstrap.job_id;
    client_options.hostname = options.facts.hostname;
    client_options.life = options.config.join.life;
    client_options.terms = bootstrap.terms;
    MasterClient client(&loop, std::move(client_options));
    std::string headline;
    options.on_finish = [&](const JobOutcome& outcome) {
      code = outcome.exit_code;
      headline = outcome.headline;
      ended = true;
    };
    AgentLoop agent(&loop, std::move(options), std::move(shepherd), &client.link(),
                    &client.output());
    agent.Start();
    const std::vector<UvSignal> scheduler =
        dialed ? HearScheduler(&loop, agent) : std::vector<UvSignal>();
    UvRunUntil(&loop, [&ended] { return ended; });
    if (agent.ended_locally() && !agent.joined()) {  // nobody else knows why
      LogError(headline);
    } else if (dialed) {
      code = 0;
    }
  }
  uv_run(&loop, UV_RUN_NOWAIT);  // close callbacks
  relay.Drain(absl::Seconds(1));
  return code;
}

void WarnOfPrograms(const AgentBootstrap& bootstrap, const AgentLoop::Options& options) {
  const uint32_t workers = options.config.join.workers;
  if (options.config.join.node_rank <= 0) {  // one node tells the user about the whole job
    for (const std::string& notice :
         ProgramNotices(options.programs, bootstrap.terms.nodes_max > 1 ? 0 : workers, workers)) {
      LogWarning(notice);
    }
  }
  WarnOfCpus(options.facts, options.programs.front().environment, options.plan.binding, workers);
}

// `tls`: its thread, which holds no lock meanwhile; nullptr = there is none.
absl::StatusOr<ShepherdProcess> ForkBeside(TlsThread* tls, std::vector<ProcessLimit> limits,
                                           const std::function<void()>& at_end) {
  if (tls != nullptr) {
    tls->Rest();
  }
  absl::StatusOr<ShepherdProcess> shepherd =
      ForkShepherd(std::move(limits), at_end, SilentIo::kIsKilled);
  if (tls != nullptr) {
    tls->Resume();
  }
  return shepherd;
}

// Where our program was sent here, other nodes' shells may have it from us: launch is told where.
absl::Status OfferProgram(const AgentBootstrap& bootstrap, const NodeFacts& facts, int out,
                          absl::Time deadline) {
  const PortRange& ports = bootstrap.plan.ports;
  const uint32_t workers = WorkersOnNode(bootstrap.plan, facts).value_or(0);
  absl::StatusOr<BoundPort> bound = absl::UnavailableError("no port to spare");
  if (HasPortToSpare(ports, workers)) {
    bound = BindStorePort(facts.address, 0, ports);
  }
  if (bound.ok() && bound->port == bootstrap.terms.master_port) {
    const absl::StatusOr<BoundPort> held = std::move(bound);  // so that it is not found again
    bound = BindStorePort(facts.address, 0, ports);
  }
  UniqueFd program(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const bool gives = bound.ok() && program.valid() &&
                     GiveBeside(std::move(bound->fd), std::move(program), bootstrap.program_token);
  return AnnounceGiving(out, gives ? bound->port : uint16_t{0}, facts.address, deadline);
}

// Needs no word of launch's: done while one is on its way.
absl::Status PrepareForGrpc() {
  RETURN_IF_ERROR(CheckThreads(kThreadsOfGrpc));
  MeasureClock();
  return absl::OkStatus();
}

struct Met {
  rlimit worker_files;  // the workers' limit of descriptors
  AgentBootstrap bootstrap;
  NodeFacts facts;
};
// Up to where launch knows of this agent, and it what to do.
absl::StatusOr<Met> MeetLaunch(const Channel& channel) {
  const absl::Time deadline = BootNow() + kBootstrapWithin;
  const bool pushed = IsPushedAgent();
  RETURN_IF_ERROR(AnnounceAgent(channel.out.get(), deadline));
  ASSIGN_OR_RETURN(const rlimit worker_files, RaiseDescriptorLimit());
  if (!channel.prepared) {
    RETURN_IF_ERROR(PrepareForGrpc());
  }
  ASSIGN_OR_RETURN(AgentBootstrap bootstrap, ReadBootstrap(channel.in.get(), deadline));
  if (!channel.secret.empty()) {
    bootstrap.secret = channel.secret;
  }
  ASSIGN_OR_RETURN(NodeFacts facts, Facts(bootstrap));
  if (pushed && !bootstrap.program_token.empty()) {
    RETURN_IF_ERROR(OfferProgram(bootstrap, facts, channel.out.get(), deadline));
  }
  return Met{worker_files, std::move(bootstrap), std::move(facts)};
}

int RunOnChannel(Channel channel) {
  absl::StatusOr<Met> met = MeetLaunch(channel);
  if (!met.ok()) {
    return Fail(met.status());
  }
  AgentBootstrap& bootstrap = met->bootstrap;
  const absl::StatusOr<std::optional<ShippedFolder>> shipped =
      Shipped(bootstrap, met->facts, channel);
  if (!shipped.ok()) {
    return 1;  // launch has been told, and says it
  }
  // The shepherd does so if we are killed; we do if it is.
  const std::function<void()> remove_shipped = [&shipped] {
    if (shipped->has_value()) {
      (*shipped)->Remove();
    }
  };
  const absl::Cleanup remove = remove_shipped;
  absl::StatusOr<AgentLoop::Options> options = OptionsOf(bootstrap, std::move(met->facts));
  if (!options.ok()) {
    return Fail(options.status());
  }
  WarnOfPrograms(bootstrap, *options);
  // Before gRPC and the relay have threads.
  NodeLimits limits =
      LimitsOnNode(options->plan.limits, met->worker_files, options->facts.hostname);
  if (!limits.warning.empty()) {
    LogWarning(limits.warning);
  }
  options->preflight = bootstrap.preflight;
  if (bootstrap.preflight) {
    options->config.join.doubts = Doubts(*options, limits);
  }
  options->on_workers_gone = [&shipped, host = options->facts.hostname] {
    if (shipped->has_value() && (*shipped)->Remove(BootNow() + kRemoveWithin)) {
      LogWarning(absl::StrCat(host, ": what workers wrote stays in ", (*shipped)->path(),
                              " there (--ship brings nothing back)"));
    }
  };
  // Kept by us and by the shepherd. Who was here before has a lease at the most.
  const absl::StatusOr<NodeHold> hold =
      TakeNodeHold(bootstrap.hold, bootstrap.terms.lease.value_or(kLease) + kLeaseSlack);
  if (!hold.ok()) {
    return Fail(hold.status());
  }
  options->config.join.hold = hold->hold;
  absl::StatusOr<ShepherdProcess> shepherd =
      ForkBeside(channel.tls.get(), std::move(limits.limits), remove_shipped);
  if (!shepherd.ok()) {
    return Fail(shepherd.status());
  }
  absl::StatusOr<std::unique_ptr<ChannelRelay>> relay =
      ChannelRelay::Start(std::move(channel.in), std::move(channel.out));
  if (!relay.ok()) {
    return Fail(relay.status());
  }
  if (const absl::Status born = shepherd->AwaitShepherd(); !born.ok()) {
    return Fail(born);
  }
  return RunLoop(bootstrap, *std::move(options), *std::move(shepherd), **relay, channel.dialed);
}

// `node`: as launch knows this node. `words`: the ticket; none where it comes on stdin.
int RunDialed(const std::string& node, const std::vector<std::string>& words) {
  const absl::Time deadline = BootNow() + kBootstrapWithin;
  const Channel standard = TakeChannel();
  const bool ticket_comes = words.empty();
  (void)TlsContext();  // the first takes 2 ms: while the ticket is on its way
  if (const absl::Status ready = ticket_comes ? PrepareForGrpc() : absl::OkStatus(); !ready.ok()) {
    return Fail(ready);
  }
  const absl::StatusOr<DialTicket> ticket =
      ticket_comes ? ReadTicket(standard.in.get(), deadline)
                   : TicketOfWords(words, std::getenv("PBS_JOBCOOKIE"));
  if (!ticket.ok()) {
    return Fail(ticket.status());
  }
  absl::StatusOr<Dialed> dialed =
      Dial(*ticket, node, deadline, [&standard, &node](const std::string& why) {
        const std::string line = UnreachableLine({node, why});
        (void)!write(standard.out.get(), line.data(), line.size());  // launch waits without it
      });
  if (!dialed.ok()) {
    return Fail(absl::Status(dialed.status().code(),
                             absl::StrCat(Hostname(), ": ", dialed.status().message())));
  }
  Channel channel;
  channel.tls = std::move(dialed->tls);
  channel.in.Reset(fcntl(dialed->socket.get(), F_DUPFD_CLOEXEC, 3));
  channel.out = std::move(dialed->socket);
  channel.dialed = true;
  channel.prepared = ticket_comes;
  channel.secret = ticket->secret;
  return RunOnChannel(std::move(channel));
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::HearAllSignals();
  const std::string word = argc >= 2 ? argv[1] : "";
  if (word == "--build" || word == "--version") {
    const char* name = word == "--build" ? "" : "muster-agent ";  // the build alone is compared
    std::printf("%s%s\n", name, std::string(muster::BuildName()).c_str());
    return 0;
  }
  if (word == "--help") {
    std::fputs(muster::kHelp, stdout);
    return 0;
  }
  if (word == "--probe" && argc == 3) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    _exit(muster::RunProbe(argv[2]));
  }
  const bool dials = word == "--dial";
  const char* slurm = std::getenv("SLURMD_NODENAME");
  const std::string node = dials && argc >= 3 ? argv[2] : slurm != nullptr ? slurm : "";
  if (dials ? node.empty() : word != "--stdio" || argc == 3 || argc > 4) {
    std::fputs(muster::kHelp, stderr);
    return 2;
  }
  if (!dials && argc == 4 && argv[2] != muster::BuildName()) {
    execl("/bin/sh", "sh", "-c", argv[3], nullptr);
    return 127;
  }
  muster::WriteNoCores();
  muster::KeepFreedMemory();
  muster::ForgoOldNames();
  muster::SetLogLevelFromEnvironment();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  if (dials) {
    muster::MaskSchedulerSignals(SIG_BLOCK);
  } else {
    muster::LeaveSignalsToLaunch();
  }
  // launch waits for our end: no static destructors of gRPC.
  const std::vector<std::string> words(argv + std::min(argc, 3), argv + argc);
  _exit(dials ? muster::RunDialed(node, words) : muster::RunOnChannel(muster::TakeChannel()));
}
