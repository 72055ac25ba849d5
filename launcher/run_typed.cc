#include "launcher/run_typed.h"

#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/core/agent_machine.h"
#include "agent/io/agent_loop.h"
#include "agent/io/master_client.h"
#include "agent/io/node_facts.h"
#include "agent/io/node_hold.h"
#include "agent/io/shepherd.h"
#include "agent/io/thread.h"
#include "agent/io/worker_limits.h"
#include "agent/io/worker_placement.h"
#include "launcher/display.h"
#include "launcher/job_run.h"
#include "launcher/join_line.h"
#include "launcher/life_file.h"
#include "launcher/local_output.h"
#include "launcher/meeting_notes.h"
#include "launcher/munge_secret.h"
#include "launcher/node_overrides.h"
#include "launcher/own_ends.h"
#include "launcher/preflight.h"
#include "launcher/proctable.h"
#include "launcher/programs.h"
#include "launcher/report.h"
#include "launcher/run_served.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/site_trust.h"
#include "launcher/stdin_reader.h"
#include "launcher/stop_countdown.h"
#include "launcher/typed_node.h"
#include "launcher/typed_place.h"
#include "launcher/user_signals.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/secret.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/service/master_server.h"

namespace muster {
namespace {

// Of this process among others.
struct Place {
  Hold hold;         // of the node's place; none = it could not be had
  pid_t server = 0;  // --journal: the process that serves, and has started this one; 0 = none has
};

class TypedJob {
 public:
  TypedJob(uv_loop_t* loop, JobSpec spec, TypedSecret secret, Place place)
      : loop_(loop),
        spec_(std::move(spec)),
        secret_(std::move(secret)),
        place_(std::move(place)),
        display_(loop, spec_.plan.output, spec_.plan.role, /*many_workers=*/true),
        stdin_(loop, [this](std::string bytes, bool eof) { output_.Stdin(std::move(bytes), eof); }),
        output_(&display_, spec_.plan.stdin_mode == StdinMode::kNone ? nullptr : &stdin_,
                &hostname_),
        countdown_(loop, [this] { return agent_ == nullptr ? 0 : agent_->workers_alive(); }),
        wait_(spec_),
        hint_timer_(loop, [this] { Hint(); }),
        pause_timer_(loop, UserSignals::SuspendSelf) {
    hint_timer_.Unref();
  }

  // Becomes the master where it shall and can; then joins as an agent.
  absl::Status Start(ShepherdProcess shepherd, AgentLoop::Options options) {
    hostname_ = options.facts.hostname;
    agent_key_ = options.config.join.key;
    RETURN_IF_ERROR(MaybeServe(options.facts));
    MasterClientOptions client;
    client.targets = spec_.rendezvous.others;
    client.targets.insert(client.targets.begin(), HostPort(target_host_, target_port_));
    if (!IsMaster()) {
      client.sites =
          trust_.emplace(spec_.rendezvous.fingerprint, spec_.Said(OptionId::kRdzvFingerprint))
              .keys();
    }
    client.secret = secret_.secret;
    client.job_id = spec_.plan.job_id;
    client.hostname = hostname_;
    client.life = options.config.join.life;
    client.terms = TermsOf(spec_);
    LogDebug(absl::StrCat("joins job ", client.job_id, " at ", Places(),
                          server_ == nullptr ? "" : ", served here"));
    client_ = std::make_unique<MasterClient>(loop_, std::move(client));
    options.secret = secret_.secret;
    options.config.join.must_agree = MustAgree(spec_);
    options.config.join.hold = place_.hold;
    options.show_waiting = [this](const std::string& note) { OnNote(note); };
    options.on_no_master = [this](const std::string& told) { wait_.Tried(told); };
    options.on_worker_ended = [this](const WorkerExit& exit) { own_ends_.Ended(hostname_, exit); };
    options.on_workers_started = [this](const Assignment& round) {
      if (const std::string line = own_ends_.RoundBegan(round);
          SpeaksForItself() && !line.empty()) {
        LogInfo(line);
      }
      wait_.Answered();
      hint_timer_.Stop();
      round_nodes_ = round.nodes;
      TellStarted(spec_, round.world_size, round.nodes);
    };
    options.on_finish = [this](const JobOutcome& outcome) { AgentDone(outcome); };
    agent_ = std::make_unique<AgentLoop>(loop_, std::move(options), std::move(shepherd),
                                         &client_->link(), &output_);
    display_.on_writable = [this] { output_.Writable(); };
    display_.on_closed = [this](const std::string& why) {
      output_.Closed(why);
      StopJob({SIGTERM, false});
    };
    signals_ = std::make_unique<UserSignals>(loop_, SignalCallbacks(), spec_.plan.stop_signals,
                                             spec_.keeper_fd);
    agent_->Start();
    if (server_ == nullptr || !spec_.rendezvous.file.empty()) {
      hint_timer_.StartAfter(kNoServerHint);
    }
    return absl::OkStatus();
  }

  bool ended() const { return ended_ && (!life_.has_value() || life_->idle()); }
  int Report() {
    if (have_report_) {
      if (life_.has_value() && IsLast(report_.cause)) {
        life_->Remove();
      }
      return ShowReport(spec_, spec_.plan.job_id,
                        AsShown(report_, display_, signals_->stop_asked()));
    } else if (!outcome_.headline.empty() && !IsServed() &&
               (spec_.rendezvous.step.empty() || agent_->ended_locally())) {
      const JobReport report = own_ends_.Report(outcome_);
      ShowPage(ReportText(report, spec_.plan.job_id, {}, OwnPythonDir()), report);
      if (absl::StrContains(outcome_.headline, kNoConnection) && !wait_.tried().empty()) {
        LogInfo(absl::StrCat("what was tried last: ", wait_.tried()));
      }
    }
    const bool nobody_reads = display_.nobody_reads() && !signals_->stop_asked();
    const int code = TellExitCodeAsShown(outcome_.exit_code, nobody_reads, display_.lost());
    if (client_ == nullptr || !client_->at_daemon() || !own_ends_.WritesFile()) {
      return code;
    }
    JobReport own = AsShown(own_ends_.ForFile(outcome_), display_, signals_->stop_asked());
    WriteReport(spec_, spec_.plan.job_id, own);
    return own.exit_code;
  }

 private:
  // Who serves says what there is to say, and has heard of the same signals.
  bool IsServed() const { return place_.server != 0 && getppid() == place_.server; }

  // Nobody else says on this terminal what becomes of the job.
  bool SpeaksForItself() const {
    return server_ == nullptr && !IsServed() && spec_.rendezvous.step.empty();
  }

  // The master is this job's own, here: it has the secret's key.
  bool IsMaster() const {
    return server_ != nullptr || place_.server != 0 || !spec_.rendezvous.file.empty();
  }

  absl::Status MaybeServe(const NodeFacts& facts) {
    target_host_ = spec_.rendezvous.host;
    target_port_ = spec_.rendezvous.port;
    if (!ShallServe(spec_)) {
      return absl::OkStatus();
    }
    MasterOptions master;
    master.users = OneSecret(secret_.secret);
    master.job = ConfigOf(spec_);
    master.job.agreed = {MustAgree(spec_), facts.hostname};
    master.on_tell = [](const std::string&, const std::string& text) { LogInfo(text); };
    if (spec_.life.has_value()) {
      life_.emplace(loop_, spec_.life->file);
    }
    master.on_round_started = [this](const std::string& job_id, const RoundStarted& round) {
      LogRound(round);
      if (life_.has_value()) {
        life_->Write(LifeText(LifeOf(spec_, *server_->FindJob(job_id))));
      }
    };
    master.on_workers_started = [this](const std::string& job_id, const WorkersStarted&) {
      PublishProctable(spec_, *server_->FindJob(job_id));
    };
    master.on_order_answered = [this](const std::string&, const OrderAnswered& done) {
      TellAnswer(spec_, done);
    };
    master.on_job_ended = [this](const std::string&, const JobReport& report) {
      report_ = report;
      have_report_ = true;
      MaybeEnd();
    };
    if (!secret_.credential.empty()) {
      master.on_foreign = [this](const UniqueFd& socket, const std::string&) {
        AnswerAsked(socket, secret_.credential);
      };
    }
    if (spec_.rendezvous.is_static) {  // torchrun's static form: rendezvous and store share
                                       // master_addr:master_port
      master.on_foreign = [this](UniqueFd socket, const std::string&) {
        if (agent_ != nullptr) {
          agent_->AdoptStoreClient(std::move(socket));
        }
      };
    }
    server_ = std::make_unique<MasterServer>(loop_, std::move(master));
    // All addresses: the name the user gave may mean 127.0.1.1 here and another address elsewhere.
    const absl::StatusOr<uint16_t> port =
        server_->Listen(absl::StrCat("[::]:", target_port_), spec_.plan.ports);
    if (absl::IsAlreadyExists(port.status()) && !spec_.serve && spec_.way != StartWay::kServe) {
      server_.reset();  // another launch, or a daemon, serves here; or a stranger
      port_taken_ = std::string(port.status().message());
      return absl::OkStatus();
    }
    if (!port.ok() && !spec_.rendezvous.step.empty()) {
      return absl::Status(port.status().code(),
                          absl::StrCat(spec_.rendezvous.step, ": ", port.status().message(),
                                       "; --port-range gives it another"));
    }
    RETURN_IF_ERROR(port.status());
    TellOfPlace(spec_, facts.hostname);
    target_host_ = "127.0.0.1";
    target_port_ = *port;
    if (spec_.way == StartWay::kServe) {
      LogInfo(absl::StrCat("to start the other ", spec_.nodes_max == 2 ? "node" : "nodes",
                           ", type there:\n    ", JoinLine(spec_, HostPort(facts.address, *port))));
    }
    return absl::OkStatus();
  }

  void Post(RoundEvent event) { server_->Post(spec_.plan.job_id, std::move(event)); }

  void StopJob(const StopAsked& stop) {
    if (server_ != nullptr) {
      Post(stop);
    } else {
      agent_->UserStop({stop.signo, stop.now, stop.told});
    }
  }

  // Whether this signal, of a pod's or a machine's end, ends no more than this node's part: of a
  // job whose nodes may go, where enough of them are left, and that another one serves. A scheduler
  // sends it to all tasks of a step.
  bool Leaves(int signo) const {
    return signo == SIGTERM && SpeaksForItself() && spec_.nodes_min < spec_.nodes_max &&
           (round_nodes_ == 0 || round_nodes_ > spec_.nodes_min);
  }

  UserSignals::Callbacks SignalCallbacks() {
    UserSignals::Callbacks out;
    out.on_stop = [this](const StopWish& wish) {
      pause_timer_.Stop();  // the job goes on, to its end
      countdown_.Begin(wish.signo, wish.now, std::min(wish.grace, TimeToStop(spec_)));
      if (wish.by == StopBy::kSignal && Leaves(wish.signo)) {
        return agent_->UserStop(
            {wish.signo, wish.now, "this node leaves it (SIGTERM)", /*leaves=*/true});
      }
      StopJob(StopOf(spec_, wish));
    };
    out.on_pass = [this](int signo) {
      if (IsServed()) {
        return;
      }
      const bool others_hear_it = spec_.slurm.has_value() && spec_.slurm->many_tasks;
      if (server_ != nullptr && !others_hear_it) {
        Post(SignalAsked{signo});
      } else {
        agent_->PassSignal(signo);
      }
    };
    out.master_elsewhere = server_ != nullptr ? "" : Places();
    out.on_drill = DrillCallback(spec_, [this](RoundEvent drill) { Post(std::move(drill)); });
    out.on_restart = [this](uint64_t ask) {
      if (server_ != nullptr) {
        return Post(RestartAsked{ask});
      }
      const bool asked = agent_->UserRestart();
      TellAnswer(spec_, {ask, asked,
                         asked ? "the master has been asked to restart the job"
                               : "no round runs here now"});
    };
    out.on_suspend = [this] {
      if (server_ != nullptr) {
        Post(PauseAsked{true});
        pause_timer_.StartAfter(UserSignals::kPauseSpreads);
      } else if (!IsServed() && UserSignals::HaveTerminal()) {
        LogInfo("Ctrl-Z pauses the job only at the node that serves it");
      }
    };
    out.on_continue = [this] {
      pause_timer_.Stop();
      if (server_ != nullptr) {
        Post(PauseAsked{false});
      }
      stdin_.Continued();
    };
    return out;
  }

  void OnNote(const std::string& note) {
    noted_ = true;
    if (note.empty() || note == kConnectedAgain) {
      wait_.Answered();
    }
    if (server_ == nullptr && !IsServed() && !note.empty()) {
      LogInfo(note);
    }
  }

  // Where the master is looked for.
  std::string Places() const {
    const std::vector<std::string>& others = spec_.rendezvous.others;
    return absl::StrCat(HostPort(target_host_, target_port_), others.empty() ? "" : " or ",
                        absl::StrJoin(others, " or "));
  }

  void Hint() {
    if (server_ == nullptr && !ended_ && !noted_) {
      wait_.Due(Places(), port_taken_);
    } else if (const std::string hint = WhoSeesTheFile(spec_.rendezvous.file);
               server_ != nullptr && !ended_ && !hint.empty()) {
      LogInfo(hint);
    }
  }

  void AgentDone(const JobOutcome& outcome) {
    outcome_ = outcome;
    agent_done_ = true;
    countdown_.End();
    stdin_.Stop();
    if (server_ != nullptr && agent_->ended_locally()) {  // nobody starts it again
      Post(StartFailed{agent_key_, outcome.headline});
    }
    MaybeEnd();
  }

  // A master stays until every node has heard how the job ended.
  void MaybeEnd() {
    if (!agent_done_ || ending_) {
      return;
    }
    if (server_ == nullptr) {
      ended_ = true;
    } else if (have_report_) {
      ending_ = true;
      server_->Shutdown([this] { ended_ = true; });
    }
  }

  uv_loop_t* const loop_;
  const JobSpec spec_;
  const TypedSecret secret_;
  const Place place_;
  std::string hostname_;
  OwnEnds own_ends_;
  std::string agent_key_;
  Display display_;
  StdinReader stdin_;
  LocalOutput output_;
  StopCountdown countdown_;
  MasterWait wait_;
  UvTimer hint_timer_;
  UvTimer pause_timer_;
  std::optional<LifeFile> life_;  // where this node serves
  std::unique_ptr<MasterServer> server_;
  std::optional<SiteTrust> trust_;  // before the client, which asks it
  std::unique_ptr<MasterClient> client_;
  std::unique_ptr<UserSignals> signals_;
  std::unique_ptr<AgentLoop> agent_;
  std::string target_host_;
  uint16_t target_port_ = 0;
  uint32_t round_nodes_ = 0;  // of the last round that ran here; 0 = none has
  std::string port_taken_;    // why this node, which should, does not serve
  JobReport report_;
  JobOutcome outcome_;
  bool have_report_ = false;
  bool noted_ = false;
  bool agent_done_ = false;
  bool ending_ = false;
  bool ended_ = false;
};

int Fail(const absl::Status& status, int code) {
  LogError(status.message());
  return code;
}

// Joins as an agent, and serves where nobody else does.
int RunAgent(JobSpec spec, Place place) {
  const absl::StatusOr<rlimit> worker_files = RaiseDescriptorLimit();
  if (!worker_files.ok()) {
    return Fail(worker_files.status(), kExitFailed);
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  // Before gRPC has threads.
  absl::StatusOr<ShepherdProcess> shepherd =
      ForkShepherd(LimitsOnNode({}, *worker_files, "").limits);
  if (!shepherd.ok()) {
    return Fail(shepherd.status(), kExitFailed);
  }
  if (const absl::Status status = CheckThreads(kThreadsOfGrpc); !status.ok()) {
    return Fail(status, kExitFailed);
  }
  TakeNodeOverrides(spec, Hostname(), spec.node_rank, spec.plan);
  uv_loop_t loop;
  uv_loop_init(&loop);
  absl::StatusOr<std::unique_ptr<FileMeeting>> meeting;  // its file goes when this does
  const bool by_file = !spec.rendezvous.file.empty();
  if (by_file) {
    meeting = GoToMeeting(&loop, spec);
    if (!meeting.ok()) {
      return Fail(meeting.status(), kExitFailed);
    }
  }
  // What this node cannot do is said before another one is waited for.
  absl::StatusOr<AgentLoop::Options> options = TypedAgent(spec);
  if (!options.ok()) {
    return Fail(options.status(), kExitUsage);
  }
  absl::StatusOr<TypedSecret> secret =
      by_file ? TypedSecret{(*meeting)->point().secret, ""} : TypedSecretOf(spec);
  if (!secret.ok()) {
    return Fail(secret.status(), kExitFailed);
  }
  if (const absl::Status born = shepherd->AwaitShepherd(); !born.ok()) {
    return Fail(born, kExitFailed);
  }
  const uint32_t workers = options->config.join.workers;
  for (const std::string& notice :
       ProgramNotices(options->programs, spec.nodes_max > 1 ? 0 : workers, workers)) {
    LogWarning(notice);
  }
  const EnvBase& environment = options->programs.front().environment;
  WarnOfCpus(options->facts, environment, options->plan.binding, workers);
  options->preflight = PreflightWanted(spec);
  if (options->preflight) {
    SayDoubts(spec, options->facts, *worker_files, environment);
  }
  int code = kExitFailed;
  {
    TypedJob job(&loop, std::move(spec), *std::move(secret), std::move(place));
    if (meeting.ok()) {
      (*meeting)->CloseLobby();  // the first that Start does is to listen in its place
    }
    const absl::Status started = job.Start(*std::move(shepherd), *std::move(options));
    if (!started.ok()) {
      return Fail(started, kExitFailed);
    }
    UvRunUntil(&loop, [&job] { return job.ended(); });
    code = job.Report();
  }
  uv_run(&loop, UV_RUN_NOWAIT);
  return code;
}

}  // namespace

int RunTyped(JobSpec spec) {
  // Every node must name the same job, so a random id will not do.
  spec.plan.job_id = spec.rendezvous.id.empty() ? "default" : spec.rendezvous.id;
  absl::StatusOr<NodeHold> hold = TakePlace(spec);
  if (spec.journal.empty()) {
    // Without it we are let in as well, only later where an agent of this place was killed.
    return RunAgent(std::move(spec), {hold.ok() ? hold->hold : Hold(), 0});
  }
  if (absl::IsDeadlineExceeded(hold.status())) {
    LogInfo("the agent of this node lives: this launch only serves");
    return RunServed(std::move(spec), ServedAgent());
  }
  if (!hold.ok()) {
    return Fail(hold.status(), kExitFailed);
  }
  absl::StatusOr<ServedAgent> agent = ForkAgent([&spec, &hold](pid_t server) {
    spec.serve = false;
    spec.rendezvous.is_host = false;
    return RunAgent(std::move(spec), {hold->hold, server});
  });
  if (!agent.ok()) {
    return Fail(agent.status(), kExitFailed);
  }
  hold->socket.Reset();  // the agent has it, for as long as it lives
  return RunServed(std::move(spec), *std::move(agent));
}

}  // namespace muster
