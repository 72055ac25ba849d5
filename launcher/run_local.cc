#include "launcher/run_local.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/agent_loop.h"
#include "agent/io/log_file.h"
#include "agent/io/node_facts.h"
#include "agent/io/program_facts.h"
#include "agent/io/shepherd.h"
#include "agent/io/worker_limits.h"
#include "launcher/display.h"
#include "launcher/job_run.h"
#include "launcher/jobs/job_id.h"
#include "launcher/local_master.h"
#include "launcher/local_output.h"
#include "launcher/node_overrides.h"
#include "launcher/proctable.h"
#include "launcher/stdin_reader.h"
#include "launcher/stop_countdown.h"
#include "launcher/user_signals.h"
#include "launcher/user_terminal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/core/stop_told.h"

namespace muster {
namespace {

// Else nobody does, or the worker itself.
bool ReadsStdin(const AgentLoop::Options& options) {
  return options.plan.stdin_mode != StdinMode::kNone && !options.stdin_of_worker.valid();
}

class LocalJob {
 public:
  LocalJob(uv_loop_t* loop, JobSpec spec, AgentLoop::Options options, ShepherdProcess shepherd)
      : spec_(std::move(spec)),
        hostname_(options.facts.hostname),
        display_(loop, options.plan.output, options.plan.role, options.config.join.workers > 1),
        stdin_(loop, [this](std::string bytes, bool eof) { output_.Stdin(std::move(bytes), eof); }),
        output_(&display_, ReadsStdin(options) ? &stdin_ : nullptr, &hostname_),
        master_(loop, OneNode(spec_), [](const std::string& text) { LogInfo(text); }),
        proctable_(loop, spec_,
                   {[this] { return &master_.state(); },
                    [this](bool paused) { master_.Post(PauseAsked{paused}); },
                    [this](NodeId) { return hostname_; }}),
        countdown_(loop, [this] { return WorkersLeft(master_.state()); }),
        signals_(loop, SignalCallbacks(), spec_.plan.stop_signals, spec_.keeper_fd) {
    master_.on_workers_started = [this](const WorkersStarted& all) {
      TellStarted(spec_, all.world_size, all.nodes);
      proctable_.Started();
    };
    master_.on_order_answered = [this](const OrderAnswered& answered) {
      TellAnswer(spec_, answered);
    };
    options.on_finish = [this](const JobOutcome& outcome) { End(outcome); };
    display_.on_writable = [this] { output_.Writable(); };
    display_.on_closed = [this](const std::string& why) {
      output_.Closed(why);
      master_.Post(StopAsked{SIGTERM, false});
    };
    agent_ = std::make_unique<AgentLoop>(loop, std::move(options), std::move(shepherd), &master_,
                                         &output_);
    if (spec_.plan.pty.has_value()) {
      display_.SetRaw(spec_.plan.pty->rank);
      terminal_.emplace(loop,
                        [this](uint16_t rows, uint16_t columns) { output_.Window(rows, columns); });
    }
    agent_->Start();
  }

  bool ended() const { return ended_; }
  int Report() {
    JobReport report = master_.report();
    if (!report.ended) {  // the agent gave up before the round machine could end the job
      report.exit_code = outcome_.exit_code;
      report.headline = outcome_.headline;
      report.cause = CauseKind::kNeverFormed;
    }
    return ShowReport(spec_, spec_.plan.job_id, AsShown(report, display_, signals_.stop_asked()));
  }

 private:
  static RoundConfig OneNode(const JobSpec& spec) {
    RoundConfig config = ConfigOf(spec);
    config.nodes_min = config.nodes_max = 1;
    return config;
  }

  UserSignals::Callbacks SignalCallbacks() {
    UserSignals::Callbacks out;
    out.on_stop = [this](const StopWish& wish) {
      countdown_.Begin(
          wish.signo, wish.now,
          std::min(wish.grace, GraceLeft(master_.state(), TimeToStop(spec_), BootNow())));
      master_.Post(StopOf(spec_, wish));
    };
    out.on_pass = [this](int signo) { master_.Post(SignalAsked{signo}); };
    out.on_drill =
        DrillCallback(spec_, [this](RoundEvent drill) { master_.Post(std::move(drill)); });
    out.on_restart = [this](uint64_t ask) { master_.Post(RestartAsked{ask}); };
    out.on_suspend = [this] {
      if (terminal_) {
        terminal_->Restore();
      }
      master_.Post(PauseAsked{true});
      UserSignals::SuspendSelf();
    };
    out.on_continue = [this] {
      if (!proctable_.holds()) {
        master_.Post(PauseAsked{false});
      }
      stdin_.Continued();
      if (terminal_) {
        terminal_->Take();
      }
    };
    return out;
  }

  void End(const JobOutcome& outcome) {
    ended_ = true;
    terminal_.reset();  // before the report
    outcome_ = outcome;
    stdin_.Stop();
    countdown_.End();
  }

  const JobSpec spec_;
  const std::string hostname_;
  Display display_;
  StdinReader stdin_;
  LocalOutput output_;
  LocalMaster master_;
  ProctableStop proctable_;
  StopCountdown countdown_;
  UserSignals signals_;
  std::optional<UserTerminal> terminal_;
  std::unique_ptr<AgentLoop> agent_;
  JobOutcome outcome_;
  bool ended_ = false;
};

// What follows from the plan and from what this node is.
void Settle(const JobSpec& spec, uint32_t workers, AgentLoop::Options& options) {
  options.plan = spec.plan;
  options.store_port = spec.master_port.value_or(0);
  options.config.tell_pids = spec.plan.tell_pids;
  options.config.hold = spec.plan.hold;
  options.config.in_process = true;
  options.config.join.key = "local";
  options.config.join.key_is_exact = true;
  options.config.join.life = 1;
  options.config.join.hostname = options.facts.hostname;
  options.config.join.address = options.facts.address;
  options.config.join.interface = options.facts.interface;
  options.config.join.workers = workers;
}

}  // namespace

int RunLocal(JobSpec spec) {
  const absl::StatusOr<rlimit> worker_files = RaiseDescriptorLimit();
  if (!worker_files.ok()) {
    LogError(worker_files.status().message());
    return kExitFailed;
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  // First of all, while this process is small and has one thread.
  absl::StatusOr<ShepherdProcess> shepherd =
      ForkShepherd(LimitsOnNode({}, *worker_files, "").limits);
  if (!shepherd.ok()) {
    LogError(shepherd.status().message());
    return kExitFailed;
  }
  AgentLoop::Options options;
  absl::StatusOr<NodeFacts> facts = ReadNodeFacts(OwnQuery(spec.plan.binding.cpu_list));
  if (!facts.ok()) {
    LogError(facts.status().message());
    return kExitUsage;
  }
  options.facts = *std::move(facts);
  TakeNodeOverrides(spec, options.facts.hostname, 0, spec.plan);
  CountObjects(options.facts, spec.plan);
  const absl::StatusOr<uint32_t> workers = WorkersOnNode(spec.plan, options.facts);
  if (!workers.ok()) {
    LogError(workers.status().message());
    return kExitUsage;
  }
  if (const absl::Status can = CheckPlacement(spec.plan, options.facts, *workers); !can.ok()) {
    LogError(can.message());
    return kExitUsage;
  }
  if (const absl::Status made = MakeLogFolder(spec.plan.output.log_dir); !made.ok()) {
    LogError(made.message());
    return kExitFailed;
  }
  if (spec.plan.job_id.empty()) {
    spec.plan.job_id = MakeJobId();
  }
  FinishOutputOptions(spec, *workers > 1, spec.plan);
  if (StdinReader::NothingThere()) {
    spec.plan.stdin_mode = StdinMode::kNone;
  }
  // What the worker leaves is for whoever reads on behind us: the loop of a shell, say.
  if (spec.plan.stdin_mode == StdinMode::kRank && isatty(STDIN_FILENO) == 0) {
    options.stdin_of_worker.Reset(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  }
  options.programs = PreparePrograms(spec.plan, OwnEnvironment());  // the plan is final now
  for (const std::string& notice : ProgramNotices(options.programs, *workers, *workers)) {
    LogWarning(notice);
  }
  WarnOfCpus(options.facts, options.programs.front().environment, spec.plan.binding, *workers);
  Settle(spec, *workers, options);

  if (const absl::Status born = shepherd->AwaitShepherd(); !born.ok()) {
    LogError(born.message());
    return kExitFailed;
  }
  uv_loop_t loop;
  uv_loop_init(&loop);
  int code = 0;
  {
    LocalJob job(&loop, std::move(spec), std::move(options), *std::move(shepherd));
    UvRunUntil(&loop, [&job] { return job.ended(); });
    code = job.Report();
  }
  uv_run(&loop, UV_RUN_NOWAIT);  // close callbacks
  return code;
}

}  // namespace muster
