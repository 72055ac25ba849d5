#include "launcher/run_served.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "agent/io/node_facts.h"
#include "agent/io/thread.h"
#include "agent/io/worker_limits.h"
#include "launcher/job_run.h"
#include "launcher/proctable.h"
#include "launcher/schedule/child_process.h"
#include "launcher/user_signals.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/wire/secret.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/service/journal.h"
#include "rendezvous/service/master_server.h"

namespace muster {
namespace {

class ServedJob {
 public:
  ServedJob(uv_loop_t* loop, JobSpec spec, ServedAgent agent)
      : loop_(loop),
        spec_(std::move(spec)),
        agent_(std::move(agent)),
        child_(loop, SIGCHLD, [this] { Reap(); }),
        pause_timer_(loop, UserSignals::SuspendSelf) {}

  absl::Status Start() {
    ASSIGN_OR_RETURN(std::string secret, SecretFor(spec_.insecure, spec_.secret_file));
    absl::StatusOr<std::unique_ptr<Journal>> journal =
        Journal::Open(loop_, spec_.journal, EpochOf(spec_));
    if (!journal.ok()) {
      return Of(journal.status());
    }
    journal_ = *std::move(journal);
    server_ = std::make_unique<MasterServer>(loop_, Options(std::move(secret)));
    const absl::StatusOr<size_t> jobs = server_->TakeOver();
    if (!jobs.ok()) {
      return Of(jobs.status());
    }
    if (report_.has_value()) {  // all nodes had heard it; the launch before us was killed then
      agent_.go.Reset();
      return absl::OkStatus();
    }
    if (*jobs > 0) {
      LogInfo(absl::StrCat("the job goes on from ", spec_.journal));
    }
    RETURN_IF_ERROR(
        server_->Listen(absl::StrCat("[::]:", spec_.rendezvous.port), spec_.plan.ports).status());
    signals_ =
        std::make_unique<UserSignals>(loop_, Callbacks(), spec_.plan.stop_signals, spec_.keeper_fd);
    return StartAgent();
  }

  // The agent goes when it has heard of the end, and its output has been shown.
  bool ended() const { return closed_ && agent_.pid == 0 && journal_->idle(); }

  int Report() {
    return report_.has_value() ? ShowReport(spec_, spec_.plan.job_id, *report_) : agent_code_;
  }

 private:
  static absl::Status Of(const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("--journal: ", status.message()));
  }

  MasterOptions Options(std::string secret) {
    MasterOptions out;
    out.users = OneSecret(std::move(secret));
    out.job = ConfigOf(spec_);
    out.job.epoch = journal_->epoch();
    out.job.agreed = {MustAgree(spec_), Hostname()};
    out.terms = TermsOf(spec_);
    out.journal = journal_.get();
    out.on_tell = [](const std::string&, const std::string& text) { LogInfo(text); };
    out.on_round_started = [](const std::string&, const RoundStarted& round) { LogRound(round); };
    out.on_workers_started = [this](const std::string& job_id, const WorkersStarted&) {
      PublishProctable(spec_, *server_->FindJob(job_id));
    };
    out.on_job_ended = [this](const std::string&, const JobReport& report) {
      report_ = report;
      Close();
    };
    return out;
  }

  UserSignals::Callbacks Callbacks() {
    UserSignals::Callbacks out;
    out.on_stop = [this](const StopWish& wish) {
      pause_timer_.Stop();  // the job goes on, to its end
      Post(StopOf(spec_, wish));
    };
    out.on_pass = [this](int signo) { Post(SignalAsked{signo}); };
    out.on_suspend = [this] {
      Post(PauseAsked{true});
      pause_timer_.StartAfter(UserSignals::kPauseSpreads);
    };
    out.on_continue = [this] {
      pause_timer_.Stop();
      Post(PauseAsked{false});
    };
    return out;
  }

  absl::Status StartAgent() {
    const char byte = 1;
    if (agent_.pid != 0 && write(agent_.go.get(), &byte, 1) != 1) {
      return absl::UnavailableError("the agent of this node was killed before it began");
    }
    Reap();  // it may have ended before the handler was there
    return absl::OkStatus();
  }

  void Post(RoundEvent event) { server_->Post(spec_.plan.job_id, std::move(event)); }

  void Close() {
    if (!std::exchange(closing_, true)) {
      server_->Shutdown([this] { closed_ = true; });
    }
  }

  // Before the first round it has said why it cannot be one of the job's; later the job goes on as
  // it does when any agent ends.
  void Reap() {
    int status = 0;
    if (agent_.pid == 0 || waitpid(agent_.pid, &status, WNOHANG) != agent_.pid) {
      return;
    }
    agent_.pid = 0;
    agent_code_ = ExitCodeOf(status);
    const RoundState* job = server_->FindJob(spec_.plan.job_id);
    if (job != nullptr && job->round.IsNone() && !job->report.ended) {
      Close();
    }
  }

  uv_loop_t* const loop_;
  const JobSpec spec_;
  ServedAgent agent_;
  int agent_code_ = kExitFailed;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<MasterServer> server_;
  std::unique_ptr<UserSignals> signals_;
  UvSignal child_;
  UvTimer pause_timer_;
  std::optional<JobReport> report_;
  bool closing_ = false;
  bool closed_ = false;
};

int Fail(const absl::Status& status) {
  LogError(status.message());
  return kExitFailed;
}

}  // namespace

absl::StatusOr<ServedAgent> ForkAgent(const std::function<int(pid_t server)>& run) {
  int go[2];
  if (pipe2(go, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  UniqueFd heard(go[0]);
  ServedAgent out{0, UniqueFd(go[1])};
  const pid_t server = getpid();
  out.pid = fork();
  if (out.pid < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a process: ", std::strerror(errno)));
  }
  if (out.pid != 0) {
    return out;
  }
  out.go.Reset();
  char byte = 0;
  if (read(heard.get(), &byte, 1) != 1) {
    _exit(kExitFailed);  // nobody serves; why not is said there
  }
  const int code = run(server);
  std::fflush(nullptr);
  _exit(code);
}

int RunServed(JobSpec spec, ServedAgent agent) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  if (const absl::Status status = RaiseDescriptorLimit().status(); !status.ok()) {
    return Fail(status);
  }
  if (const absl::Status status = CheckThreads(kThreadsOfGrpc); !status.ok()) {
    return Fail(status);
  }
  uv_loop_t loop;
  uv_loop_init(&loop);
  int code = kExitFailed;
  {
    ServedJob job(&loop, std::move(spec), std::move(agent));
    if (const absl::Status started = job.Start(); !started.ok()) {
      return Fail(started);
    }
    UvRunUntil(&loop, [&job] { return job.ended(); });
    code = job.Report();
  }
  uv_run(&loop, UV_RUN_NOWAIT);
  return code;
}

}  // namespace muster
