#include "launcher/run_hosts.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <uv.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "agent/io/node_facts.h"
#include "agent/io/shepherd.h"
#include "agent/io/thread.h"
#include "agent/io/worker_limits.h"
#include "launcher/await_requeue.h"
#include "launcher/display.h"
#include "launcher/failed_start.h"
#include "launcher/first_node.h"
#include "launcher/job_run.h"
#include "launcher/job_secret.h"
#include "launcher/jobs/job_id.h"
#include "launcher/life_file.h"
#include "launcher/look_first.h"
#include "launcher/node_starts.h"
#include "launcher/preflight.h"
#include "launcher/proctable.h"
#include "launcher/ship/ship_files.h"
#include "launcher/stdin_reader.h"
#include "launcher/stop_countdown.h"
#include "launcher/user_signals.h"
#include "launcher/user_terminal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/grpc_runtime.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/core/stop_told.h"
#include "rendezvous/service/master_server.h"

namespace muster {
namespace {

class HostsJob {
 public:
  HostsJob(uv_loop_t* loop, JobSpec spec, JobSecret secret, const std::string& agent_path,
           const rlimit& files, std::optional<ShipArchive> shipped)
      : spec_(std::move(spec)),
        secret_(std::move(secret)),
        display_(loop, spec_.plan.output, spec_.plan.role, ManyWorkers(spec_)),
        stdin_(loop, [this](const std::string& bytes, bool eof) { OnStdin(bytes, eof); }),
        server_(*new MasterServer(loop, MasterCallbacks())),
        proctable_(loop, spec_,
                   {[this] { return server_.FindJob(spec_.plan.job_id); },
                    [this](bool paused) {
                      if (paused || !pause_timer_.active()) {  // else the user pauses, too
                        Post(PauseAsked{paused});
                      }
                    },
                    [this](NodeId node) {
                      return spec_.way == StartWay::kStandalone ? Hostname() : NameOf(node);
                    }}),
        countdown_(loop, [this] { return Left(); }),
        signals_(loop, SignalCallbacks(), spec_.plan.stop_signals, spec_.keeper_fd),
        pause_timer_(loop, UserSignals::SuspendSelf),
        check_threads_(loop, [this] { PrepareServer(); }),
        starts_(loop, spec_, secret_, server_,
                StartOptions(agent_path, files, std::move(shipped))) {
    if (spec_.life.has_value()) {
      life_.emplace(loop, spec_.life->file);
    }
    display_.on_writable = [this] { ShowWaiting(); };
    display_.on_closed = [this](const std::string&) {
      Post(StopAsked{SIGTERM, false});
      ShowWaiting();
    };
    if (spec_.plan.pty.has_value()) {
      window_ = *spec_.plan.pty;
      display_.SetRaw(window_.rank);
      terminal_.emplace(loop, [this](uint16_t rows, uint16_t columns) {
        window_.rows = rows;
        window_.columns = columns;
        window_is_new_ = true;
        SendWindow();
      });
    }
    starts_.StartAll();
    check_threads_.StartAfter(absl::ZeroDuration());  // after the starters' timers
  }

  // However it ends, also before anybody has called.
  ~HostsJob() { RemoveSecretFile(secret_.file); }

  bool ended() const { return (ended_ && (!life_.has_value() || life_->idle())) || !threads_.ok(); }
  // Why no node can reach us, where another launch is to serve instead; else "".
  const std::string& unreachable() const { return unreachable_; }
  int Report() {
    if (!threads_.ok()) {
      terminal_.reset();
      LogError(threads_.message());
      return kExitFailed;
    }
    const int code =
        ShowReport(spec_, spec_.plan.job_id, AsShown(report_, display_, signals_.stop_asked()));
    if (life_.has_value() && IsLast(report_.cause)) {
      life_->Remove();
    }
    if (report_.cause == CauseKind::kNeverFormed && !starts_.an_agent_gave_up() &&
        PreflightWanted(spec_)) {
      ExamineNodes(spec_);
    }
    if (report_.cause == CauseKind::kNodeLost && !report_.lost_node.empty() && !stop_asked_ &&
        !starts_.HasToldEndOn(report_.lost_node)) {
      AwaitRequeue(spec_, report_.lost_node);
    }
    return code;
  }

 private:
  struct WaitingChunk {
    OutputChunk chunk;
    std::string host;
    std::function<void()> taken;
  };

  // While agents start.
  void PrepareServer() {
    threads_ = CheckThreads(kThreadsOfGrpc);
    if (threads_.ok()) {
      server_.Prepare();
      if (absl::StatusOr<Thread> clock = Thread::Start("muster-clock", &MeasureClock); clock.ok()) {
        clock->Detach();
      }
    }
  }

  void Post(RoundEvent event) { server_.Post(spec_.plan.job_id, std::move(event)); }

  MasterOptions MasterCallbacks() {
    MasterOptions out;
    out.users = OneSecret(secret_.secret);
    out.job = ConfigOf(spec_);
    out.job.starts_again = true;
    out.job.machines_return = !spec_.given_hosts.has_value();  // those of a job do not
    out.on_start_again = [this](const std::string&, const StartAgain& wanted) {
      starts_.Again(wanted);
    };
    out.on_tell = [](const std::string&, const std::string& text) { LogInfo(text); };
    out.on_round_started = [this](const std::string&, const RoundStarted& round) {
      LogRound(round);
      if (life_.has_value()) {
        life_->Write(LifeText(LifeOf(spec_, *server_.FindJob(spec_.plan.job_id))));
      }
      ShowDoubts();
      stdin_done_ = false;  // another agent may have the reader now, and has to hear of the end
      SendStdin();
    };
    out.on_workers_started = [this](const std::string&, const WorkersStarted& all) {
      TellStarted(spec_, all.world_size, all.nodes);
      proctable_.Started();
    };
    out.on_signal_heard = [this](const std::string&, const SignalHeard& heard) {
      signals_.Heard(heard.signo, heard.node);
    };
    out.on_order_answered = [this](const std::string&, const OrderAnswered& done) {
      TellAnswer(spec_, done);
    };
    out.on_job_ended = [this](const std::string&, const JobReport& report) { JobOver(report); };
    out.on_chunk = [this](const std::string&, NodeId node, OutputChunk&& chunk,
                          std::function<void()> taken) {
      waiting_.push_back({std::move(chunk), NameOf(node), std::move(taken)});
      ShowWaiting();
    };
    out.on_lost = [this](const std::string&, NodeId node, const std::string& why) {
      display_.Lost(absl::StrCat(NameOf(node), ": ", why));
    };
    out.on_stdin_room = [this](const std::string&) {
      SendWindow();
      SendStdin();
    };
    return out;
  }

  NodeStartsOptions StartOptions(const std::string& agent_path, const rlimit& files,
                                 std::optional<ShipArchive> shipped) {
    NodeStartsOptions out;
    out.agent_path = agent_path;
    out.own_limits = OwnLimits({"nofile"}, files);
    out.shipped = std::move(shipped);
    out.on_connected = [this] { StartStdin(); };
    out.on_unreachable = [this](const std::string& why) { OnUnreachable(why); };
    return out;
  }

  UserSignals::Callbacks SignalCallbacks() {
    UserSignals::Callbacks out;
    out.on_stop = [this](const StopWish& wish) {
      pause_timer_.Stop();  // the job goes on, to its end
      stop_asked_ = true;
      countdown_.Begin(wish.signo, wish.now, std::min(wish.grace, StopGrace()));
      Post(StopOf(spec_, wish));
    };
    out.on_pass = [this](int signo) { Post(SignalAsked{signo}); };
    out.on_drill = DrillCallback(spec_, [this](RoundEvent drill) { Post(std::move(drill)); });
    out.on_restart = [this](uint64_t ask) { Post(RestartAsked{ask}); };
    out.on_suspend = [this] {
      if (terminal_) {
        terminal_->Restore();
      }
      Post(PauseAsked{true});
      pause_timer_.StartAfter(UserSignals::kPauseSpreads);
    };
    out.on_continue = [this] {
      pause_timer_.Stop();
      if (!proctable_.holds()) {
        Post(PauseAsked{false});
      }
      stdin_.Continued();
      if (terminal_) {
        terminal_->Take();
      }
    };
    return out;
  }

  void OnUnreachable(const std::string& why) {
    if (!over_ && !ending_) {
      unreachable_ = why;
      EndStarters();
    }
  }

  // Not before a node is there: until then another launch may be to read it.
  void StartStdin() {
    if (spec_.plan.stdin_mode != StdinMode::kNone && !over_) {
      stdin_.Start();
    }
  }

  // As the list names it. The node ranks of a round are not the list's: a node may be missing.
  std::string NameOf(NodeId node) const {
    const RoundState& state = *server_.FindJob(spec_.plan.job_id);
    return ListName(spec_, static_cast<size_t>(state.nodes.at(node).join.node_rank));
  }

  // What it calls may call it: the display that finds its reader gone, a node whose next chunk
  // comes with the taking of this one. Then the loop below goes on with what is new.
  void ShowWaiting() {
    if (std::exchange(showing_, true)) {
      return;
    }
    while (!waiting_.empty() && display_.Show(waiting_.front().chunk, waiting_.front().host)) {
      const std::function<void()> taken = std::move(waiting_.front().taken);
      waiting_.pop_front();
      taken();
    }
    showing_ = false;
    MaybeEnd();
  }

  void OnStdin(const std::string& bytes, bool eof) {
    stdin_bytes_.append(bytes);
    stdin_eof_ = stdin_eof_ || eof;
    SendStdin();
  }

  void SendWindow() {
    window_is_new_ = window_is_new_ && !server_.SendWindow(spec_.plan.job_id, Rank{window_.rank},
                                                           window_.rows, window_.columns);
  }

  void SendStdin() {
    StdinTo to;
    if (spec_.plan.stdin_mode == StdinMode::kRank) {
      to.rank = Rank{spec_.plan.stdin_rank};
    }
    const size_t room = std::min(server_.StdinRoom(spec_.plan.job_id, to), stdin_bytes_.size());
    const bool last = stdin_eof_ && room == stdin_bytes_.size();
    if (stdin_done_ || (room == 0 && !last)) {
      return;
    }
    if (server_.SendStdin(spec_.plan.job_id, to, absl::string_view(stdin_bytes_).substr(0, room),
                          last)) {
      stdin_bytes_.erase(0, room);
      stdin_.Taken(room);
      stdin_done_ = last;
    }
  }

  uint32_t Left() const {
    const RoundState* state = server_.FindJob(spec_.plan.job_id);
    return state == nullptr ? 0 : WorkersLeft(*state);
  }

  absl::Duration StopGrace() const {
    const RoundState* state = server_.FindJob(spec_.plan.job_id);
    const absl::Duration grace = TimeToStop(spec_);
    return state == nullptr ? grace : GraceLeft(*state, grace, BootNow());
  }

  // What the agents have found wrong with their nodes; once.
  void ShowDoubts() {
    const RoundState* state = server_.FindJob(spec_.plan.job_id);
    if (state == nullptr || std::exchange(doubts_shown_, true)) {
      return;
    }
    std::vector<std::pair<std::string, std::vector<std::string>>> doubts;
    for (const auto& [id, node] : state->nodes) {
      doubts.emplace_back(ListName(spec_, static_cast<size_t>(std::max(node.join.node_rank, 0))),
                          node.join.doubts);
    }
    for (const std::string& line : PreflightLines(spec_, doubts)) {
      LogWarning(line);
    }
  }

  // The round machine is done; what was shown last may still be on its way to the terminal.
  void JobOver(const JobReport& report) {
    ShowDoubts();
    report_ = report;
    over_ = true;
    unreachable_.clear();
    starts_.JobOver();
    countdown_.End();
    stdin_.Stop();
    RemoveSecretFile(secret_.file);
    MaybeEnd();
  }

  void MaybeEnd() {
    if (!over_ || ending_ || !waiting_.empty() || !(display_.nobody_reads() || display_.Idle())) {
      return;
    }
    terminal_.reset();  // before the report
    EndStarters();
  }

  void EndStarters() {
    ending_ = true;
    starts_.Stop([this] { ended_ = true; });
  }

  const JobSpec spec_;
  const JobSecret secret_;
  Display display_;
  StdinReader stdin_;
  MasterServer& server_;  // lasts as long as the process: RunHosts
  ProctableStop proctable_;
  StopCountdown countdown_;
  UserSignals signals_;
  UvTimer pause_timer_;
  UvTimer check_threads_;  // for gRPC, before it is used: while ssh connects
  absl::Status threads_;
  std::optional<UserTerminal> terminal_;
  Terminal window_;             // --pty: as it is now
  bool window_is_new_ = false;  // the worker's node has not been told
  std::optional<LifeFile> life_;
  NodeStarts starts_;
  std::deque<WaitingChunk> waiting_;  // at most one a node
  bool showing_ = false;
  std::string stdin_bytes_;
  bool stdin_eof_ = false;
  bool stdin_done_ = false;
  JobReport report_;
  bool doubts_shown_ = false;
  bool stop_asked_ = false;  // by a signal
  bool over_ = false;
  bool ending_ = false;
  bool ended_ = false;
  std::string unreachable_;
};

// What agents of this machine have left to us ends a moment after them. The first process of a
// container may be none that waits for it.
void AwaitOrphans() {
  const absl::Time until = BootNow() + absl::Milliseconds(20);
  pid_t ended = 0;
  while ((ended = waitpid(-1, nullptr, WNOHANG)) >= 0 && BootNow() < until) {
    absl::SleepFor(ended > 0 ? absl::ZeroDuration() : absl::Microseconds(200));
  }
}

}  // namespace

int RunHosts(JobSpec spec, const std::string& agent_path) {
  const absl::StatusOr<rlimit> files = RaiseDescriptorLimit();
  if (!files.ok()) {
    LogError(files.status().message());
    return kExitFailed;
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // AwaitOrphans
  absl::StatusOr<std::optional<ShipArchive>> shipped = ShipArchiveOf(spec.ship);
  if (!shipped.ok()) {
    LogError(shipped.status().message());
    return kExitUsage;
  }
  // After what takes long or fails: the job, which removes the secret's file, is next.
  const absl::StatusOr<JobSecret> secret = MakeJobSecret(spec, EnvironmentMap(OwnEnvironment()));
  if (!secret.ok()) {
    LogError(secret.status().message());
    return kExitFailed;
  }
  if (spec.plan.job_id.empty()) {
    spec.plan.job_id = MakeJobId();
  }
  FinishOutputOptions(spec, ManyWorkers(spec), spec.plan);
  spec.plan.limits = OwnLimits(spec.propagate, *files);
  if (StdinReader::NothingThere()) {
    spec.plan.stdin_mode = StdinMode::kNone;
  }
  // Loop and server are not taken down: in order that takes gRPC 5 ms and serves nobody, for every
  // agent has left, and main ends the process.
  auto* const loop = new uv_loop_t;
  uv_loop_init(loop);
  std::string why = " (--rdzv-conf is_host=0)";
  if (spec.rendezvous.is_host != false || !MayServeOnFirstNode(spec)) {
    HostsJob job(loop, spec, *secret, agent_path, *files, std::move(*shipped));
    UvRunUntil(loop, [&job] { return job.ended(); });
    if (job.unreachable().empty()) {
      const int code = job.Report();
      AwaitOrphans();
      return code;
    }
    why = absl::StrCat(": its nodes cannot connect to this host (", job.unreachable(), ")");
  }
  LogInfo(absl::StrCat("launch runs on ", spec.nodes.front().host.name, ", the first node of ",
                       spec.given_hosts->job, why));
  return RunOnFirstNode(loop, spec, agent_path);
}

}  // namespace muster
