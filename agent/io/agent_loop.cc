#include "agent/io/agent_loop.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "agent/core/dialects.h"
#include "agent/io/exit_facts.h"
#include "agent/io/freeze.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr absl::Duration kLogWithin =
    absl::Seconds(30);  // at the end: a disk that takes nothing for so long is given up

// Of the first program on every node: rank 0's.
AgentLoop::Options WithStore(AgentLoop::Options options) {
  options.config.join.agent_store =
      StoreIsAgent(options.plan.store, options.programs.front().facts);
  return options;
}

}  // namespace

AgentLoop::AgentLoop(uv_loop_t* loop, Options options, ShepherdProcess shepherd, MasterLink* master,
                     OutputLink* output)
    : options_(WithStore(std::move(options))),
      held_(loop, master),
      master_(&held_),
      output_(output),
      placement_(options_.plan, options_.facts),
      bindings_(loop, options_.facts.hostname),
      mpi_watch_(loop),
      door_(loop, std::move(shepherd.door), options_.facts.cpus_usable(),
            {options_.secret, options_.plan.job_id, {}},
            [this](NodeRank node) {
              Post(PeerSought{assignment_.round, node});
            }),
      shepherd_(loop, std::move(shepherd), ShepherdCallbacks()),
      use_(loop, options_.facts.cpus_usable(),
           {[this] { return shepherd_.pid(); }, [this] { return door_.Steps(); },
            [this] { return pump_.bytes_read(); }},
           [this](const NodeUse& use) { Post(UseSeen{use}); }),
      stdin_(loop, [this](size_t bytes) { output_->StdinTaken(bytes); }),
      pmi_(loop, {[this](std::string pairs) { EnterFence(std::move(pairs)); },
                  [this](LocalRank local) { shepherd_.KillWorker(local.value); }}),
      pmix_(loop, PmixCallbacks()),
      modex_timer_(loop, [this] { GoOnSeeking(modex_.TimePassed(BootNow())); }),
      pump_(loop, options_.plan.output, options_.plan.job_id, options_.facts.hostname, output),
      master_probe_(loop, options_.facts.hostname),
      store_(loop, [this](std::string why) { Post(StorePortFailed{std::move(why)}); }),
      timer_(loop,
             [this] {
               shepherd_.Ping();
               TellAwaited();
               Post(TimeElapsed{});
             }),
      drain_timer_(loop, [this] { CutOff(); }),
      failing_timer_(loop, [this] { SignalNow(); }),
      show_timer_(loop, [this] { CheckShown(); }) {}

void AgentLoop::Start() {
  window_ = options_.plan.pty.value_or(Terminal());
  modex_timer_.Unref();
  oom_kills_ = OomKills("/proc/self/cgroup", "/sys/fs/cgroup");
  OutputLink::Callbacks output;
  output.on_writable = [this] { pump_.OnWritable(); };
  output.on_stdin = [this](const std::string& bytes, bool eof) { stdin_.Put(bytes, eof); };
  output.on_closed = [this](const std::string&) { OutputClosed(); };
  output.on_window = [this](uint16_t rows, uint16_t columns) { SetWindow(rows, columns); };
  output_->Start(std::move(output));
  // The time within which the master must be found begins. The first step may already end the agent
  // (its port is in use), and for that the link must have been started.
  events_.push_back(TimeElapsed{});
  MasterLink::Callbacks master;
  master.on_up = [this] { Post(LinkUp{}); };
  master.on_try_failed = options_.on_no_master;
  master.on_down = [this](std::string why, bool told) {
    Post(LinkDown{std::move(why), master_->IsFinal(), told});
  };
  master.on_message = [this](const MasterMessage& message) {
    const bool admitted = std::holds_alternative<Admitted>(message);
    Post(MessageReceived{message});
    if (admitted) {
      SendFences(fences_.Again());
    }
  };
  master.on_fence = [this](const FencePiece& piece) { TakeFence(piece); };
  master.on_modex = [this](const ModexNote& note) { TakeModex(note); };
  master_->Start(std::move(master));
  TakeEvents();
}

void AgentLoop::UserStop(muster::UserStop stop) { Post(std::move(stop)); }

bool AgentLoop::UserRestart() {
  if (state_.phase != AgentPhase::kRunning || !state_.admitted) {
    return false;
  }
  Post(muster::UserRestart{});
  return true;
}

void AgentLoop::SchedulerSignal(int signo) { Post(muster::SchedulerSignal{signo}); }

void AgentLoop::OutputClosed() { pump_.Discard(); }

void AgentLoop::Post(AgentEvent event) {
  events_.push_back(std::move(event));
  TakeEvents();
}

// Looked up when a beat is due, as what is awaited mostly comes before.
void AgentLoop::TellAwaited() {
  std::vector<Rank> ranks = door_.Awaited(kPeersPerBeatMax);
  if (ranks != state_.awaited) {
    Post(PeersAwaited{assignment_.round, std::move(ranks)});
  }
}

// Effects may bring events at once (the in-process master answers within Send): they wait for their
// turn.
void AgentLoop::TakeEvents() {
  if (stepping_) {
    return;
  }
  stepping_ = true;
  while (!events_.empty()) {
    const AgentEvent next = std::move(events_.front());
    events_.pop_front();
    const size_t ends_told = state_.exits.size();
    const std::vector<AgentEffect> effects = Step(options_.config, state_, next, BootNow());
    for (size_t i = ends_told; options_.on_worker_ended && i < state_.exits.size(); ++i) {
      options_.on_worker_ended(state_.exits[i].first);
    }
    for (const AgentEffect& effect : effects) {
      std::visit([this](const auto& one) { Do(one); }, effect);
    }
    TellFollowers();
  }
  stepping_ = false;
}

// Workers that wait for a round that keeps them need to hear that none comes.
void AgentLoop::TellFollowers() {
  const bool may = state_.phase == AgentPhase::kRunning && !assignment_.started_in.empty();
  if (std::exchange(may_follow_, may) != may) {
    door_.LetFollow(may);
  }
}

void AgentLoop::Do(const SendToMaster& effect) { master_->Send(effect.message); }

void AgentLoop::Do(const Drill& effect) {
  const DrillOrder& order = effect.order;
  switch (order.kind) {
    case DrillKind::kKillWorker:
      return shepherd_.KillWorker(order.worker.value);
    case DrillKind::kKillNode:
      (void)shepherd_.Kill();
      raise(SIGKILL);
      return;
    case DrillKind::kFreeze:
      return Freeze(order.length);
    case DrillKind::kCut:
      return HoldUp(order.length, order.length);
    case DrillKind::kSlow:
      return HoldUp(order.delay, order.length);
  }
}

// All that goes between this node and others on connections of ours.
void AgentLoop::HoldUp(absl::Duration delay, absl::Duration length) {
  held_.Hold(delay, length);
  door_.HoldUp(delay, length);
}

void AgentLoop::Freeze(absl::Duration length) {
  std::vector<pid_t> others;
  if (shepherd_.pid() > 0) {
    others.push_back(shepherd_.pid());
  }
  for (const Worker& worker : workers_) {
    if (worker.pid != 0 && !worker.ended) {
      others.push_back(-worker.pid);  // with what it has started
    }
  }
  if (const absl::Status frozen = FreezeFor(length, others); !frozen.ok()) {
    LogError(frozen.message());
  }
}

void AgentLoop::Do(const OpenStore&) {
  // What we serve listens where the workers are told to come, and on one machine nothing but
  // loopback does. What is only kept must be free on every address, as rank 0 listens on all.
  const bool one_address = options_.facts.address_is_loopback ||
                           (options_.config.join.agent_store && !options_.store_on_all);
  const absl::StatusOr<uint16_t> port =
      store_.Open(one_address ? options_.facts.address : "", options_.store_port,
                  options_.plan.ports, options_.config.join.agent_store);
  if (!port.ok()) {
    return Post(StorePortFailed{absl::StrCat(
        options_.store_port != 0 ? "--master-port: " : "no port for the workers' store: ",
        port.status().message())});
  }
  absl::StatusOr<std::vector<uint16_t>> kept = KeepWorkerPorts();
  if (!kept.ok()) {
    return Post(StorePortFailed{std::string(kept.status().message())});
  }
  Post(StorePortReady{*port, *std::move(kept)});
}

void AgentLoop::Do(const SpawnRound& effect) {
  assignment_ = effect.assignment;
  workers_.assign(assignment_.workers, Worker());
  alone_ = clearing_ = false;
  UniqueFd port = BeginStore();
  MakeRunDir();
  pump_.BeginRound(assignment_);
  door_.BeginRound(assignment_, std::move(port));
  pmi_.BeginRound(PmiRound());
  fences_.BeginRound(assignment_.round);
  modex_.BeginRound(assignment_.round);
  absl::Status may = placement_.PlaceAll(assignment_.workers,
                                         assignment_.one_host && assignment_.nodes > 1, &claims_);
  if (const CpuPlan* plan = placement_.plan(); plan != nullptr) {
    door_.SetCpus(CpusToWaitWith(*plan, options_.facts.cpus_usable()));
  }
  use_.Begin(assignment_.workers);
  may.Update(CheckMpi());
  may.Update(CheckDialects(options_.plan, assignment_));
  if (may.ok() && ServesPmix()) {
    return BeginPmix();  // which goes on with SpawnWorkers
  }
  SpawnWorkers(may);
}

ShepherdClient::Callbacks AgentLoop::ShepherdCallbacks() {
  ShepherdClient::Callbacks out;
  out.on_spawned = [this](uint32_t local_rank, pid_t pid) {
    workers_[local_rank].pid = pid;
    use_.WorkerStarted(LocalRank{local_rank}, pid);
    Post(WorkerSpawned{assignment_.round, LocalRank{local_rank}, pid});
    if (state_.workers_started == assignment_.workers) {
      ReportBindings();
      WatchForMpi();
      if (options_.on_workers_started) {
        options_.on_workers_started(assignment_);
      }
    }
  };
  out.on_spawn_failed = [this](uint32_t local_rank, int error, std::string what) {
    OnSpawnFailed(local_rank, error, std::move(what));
  };
  out.on_ended = [this](uint32_t local_rank, const WorkerEnd& end) { OnEnded(local_rank, end); };
  out.on_groups_ended = [this] { Post(GroupsEnded{assignment_.round}); };
  out.on_cleared = [this](const std::string& survivors) { OnCleared(survivors); };
  out.on_lease_ended = [this] {
    Post(LeaseEnded{});
    Post(GroupsEnded{assignment_.round});  // which it has killed, also where a new lease has come
  };
  out.on_helper_failed = [this](const std::string& why) { pmix_.HelperFailed(why); };
  out.on_dead = [this] { OnShepherdDead(); };
  return out;
}

void AgentLoop::OnSpawnFailed(uint32_t local_rank, int error, std::string what) {
  workers_[local_rank].ended = true;
  (void)pump_.Drain(local_rank);  // it has written nothing
  WorkerExit exit;
  exit.local_rank = LocalRank{local_rank};
  exit.rank = assignment_.RankOf(LocalRank{local_rank});
  exit.kind = ExitKind::kSpawnFailed;
  exit.code = error;
  exit.detail = std::move(what);
  Post(WorkerEnded{assignment_.round, std::move(exit), alone_});
}

void AgentLoop::OnEnded(uint32_t local_rank, const WorkerEnd& end, std::optional<Rank> before) {
  const int wait_status = end.wait_status;
  alone_ = end.alone;
  Worker& worker = workers_[local_rank];
  worker.ended = true;
  bindings_.WorkerEnded(local_rank);
  use_.WorkerEnded(worker.pid, end.times);
  if (local_rank == 0) {
    mpi_watch_.End();
  }
  WorkerExit exit;
  exit.because_of = door_.WorkerEnded(LocalRank{local_rank});
  if (failing_timer_.active() && !door_.IsAnyFailing()) {
    SignalNow();
  }
  if (before.has_value()) {
    exit.because_of = before;
  }
  exit.local_rank = LocalRank{local_rank};
  exit.rank = assignment_.RankOf(LocalRank{local_rank});
  exit.pid = worker.pid;
  exit.ran_for = BootNow() - worker.started;
  exit.rss_max_bytes = end.peak_bytes;
  if (WIFSIGNALED(wait_status)) {
    exit.kind = ExitKind::kSignaled;
    exit.code = WTERMSIG(wait_status);
    exit.core_dumped = WCOREDUMP(wait_status);
  } else {
    exit.code = WEXITSTATUS(wait_status);
  }
  TellOfMpi(pmix_.serving() ? pmix_.WorkerEnded(LocalRank{local_rank}, exit.Ok())
                            : pmi_.WorkerEnded(LocalRank{local_rank}, exit.Ok()),
            exit);
  exit.stderr_tail = pump_.Drain(local_rank);
  if (!exit.Ok()) {
    if (exit.kind == ExitKind::kSignaled && exit.code == SIGKILL) {
      const uint64_t kills = OomKills("/proc/self/cgroup", "/sys/fs/cgroup");
      exit.oom_killed = kills > oom_kills_;
      oom_kills_ = std::max(oom_kills_, kills);
    }
    const ErrorFile error = ReadErrorFile(worker.error_file);
    pump_.KeepError(LocalRank{local_rank}, error.text);
    exit.error_message = error.message;
    exit.error_before = error.age;
  }
  Post(WorkerEnded{assignment_.round, std::move(exit), alone_});
}

void AgentLoop::OnShepherdDead() {
  LogError(absl::StrCat(
      "the shepherd process of this node was killed: every worker here has been ended",
      shepherd_.pid() > 0 ? "" : ", and none can be started, as the reaper process is gone, too"));
  alone_ = true;
  program_sent_ = false;
  run_dir_.Remove();          // which it would have done
  std::optional<Rank> first;  // all of them are one failure
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    if (!workers_[i].ended && workers_[i].pid != 0) {
      OnEnded(i, {SIGKILL, 0, /*alone=*/true, {}}, first);
      first = first.value_or(assignment_.RankOf(LocalRank{i}));
    } else if (!workers_[i].ended) {
      OnSpawnFailed(i, ECHILD, "the shepherd process was killed");
    }
  }
  Post(GroupsEnded{assignment_.round});  // where they were awaited
  if (clearing_ || drain_timer_.active()) {
    OnCleared("");
  }
}

void AgentLoop::Do(const ReleaseHeld&) {
  LogWarning(absl::StrCat("not all workers have been started for ", ShortDuration(kHeldMax),
                          ": those here no longer wait for the debugger"));
  shepherd_.Signal(SIGCONT);
}

void AgentLoop::Do(const KillRound&) { ClearRound(); }

void AgentLoop::Do(const CloseRound& effect) {
  if (alone_) {
    return OnCleared("");  // the last exit said so: no need to ask
  }
  if (pump_.round_closed() || effect.drain == absl::ZeroDuration()) {
    return ClearRound();
  }
  pump_.on_round_closed = [this] { ClearRound(); };
  drain_timer_.StartAfter(effect.drain);
}

void AgentLoop::Do(const EndDrain&) {
  if (drain_timer_.active()) {
    ClearRound();
  }
}

void AgentLoop::CutOff() {
  const std::vector<uint32_t> ranks = pump_.open_ranks();
  LogWarning(absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", RangeList(ranks),
                          " left processes behind, with the output still open: they are ended now "
                          "(a shell script waits for its own with: wait)"));
  ClearRound();
}

void AgentLoop::ClearRound() {
  drain_timer_.Stop();
  pump_.on_round_closed = nullptr;
  clearing_ = true;
  pmix_.Closing();
  shepherd_.Clear();
}

void AgentLoop::OnCleared(const std::string& survivors) {
  if (!survivors.empty()) {
    LogWarning(absl::StrCat("could not end process ", survivors,
                            ": stuck in the kernel, or not ours to kill"));
  }
  clearing_ = false;
  drain_timer_.Stop();
  bindings_.End();
  mpi_watch_.End();
  use_.End();
  stdin_.CloseAll();
  terminal_.Reset();
  door_.EndRound();
  pmi_.EndRound();
  pmix_.EndRound();
  modex_.BeginRound(assignment_.round);  // nobody here seeks anything any more
  master_probe_.EndRound();
  failing_timer_.Stop();
  signals_later_.clear();
  pump_.CloseRound();  // the store stays: workers of other nodes may still run
  Post(RoundCleared{assignment_.round});
}

void AgentLoop::Do(const PeerFound& effect) { door_.Found(effect.peer); }

void AgentLoop::Do(const PeerGone& effect) { door_.PeerGone(effect.rank); }

void AgentLoop::Do(const MeetNoMore& effect) { door_.MeetNoMore(effect.ended_well); }

void AgentLoop::Do(const SetLease& effect) {
  shepherd_.SetLease(effect.until == absl::InfiniteFuture() ? 0 : absl::ToUnixNanos(effect.until));
}

void AgentLoop::Do(const SetTimer& effect) { timer_.StartAt(effect.at); }

void AgentLoop::Do(const ShowWaiting& effect) {
  if (options_.show_waiting) {
    options_.show_waiting(effect.note);
  }
}

void AgentLoop::Do(const ShowRest&) {
  run_dir_.Remove();  // before launch hears that this node is done, and ends
  if (options_.on_workers_gone) {
    options_.on_workers_gone();
  }
  pump_.on_empty = [this] { EndOutput(); };
  pump_.on_progress = [this] { show_timer_.StartAfter(kLogWithin); };
  show_timer_.StartAfter(kLogWithin);
  if (pump_.Empty()) {
    EndOutput();
  }
}

// A reader may take his time (a pager, Ctrl-S); a disk may not.
void AgentLoop::CheckShown() {
  if (pump_.WaitsForDisk()) {
    const std::string why =
        absl::StrCat("a disk took nothing for ", absl::FormatDuration(kLogWithin));
    LogWarning(absl::StrCat(why, ": the rest of the output is lost; see TMPDIR and --log-dir"));
    output_->Lost(why);
    EndOutput();
  } else {
    show_timer_.StartAfter(kLogWithin);
  }
}

void AgentLoop::EndOutput() {
  if (pump_.on_empty == nullptr) {
    return;
  }
  pump_.on_empty = nullptr;
  pump_.on_progress = nullptr;
  show_timer_.Stop();
  output_->Finish([this] { Post(RestShown{}); });
}

void AgentLoop::Do(const Finish& effect) {
  if (!effect.all_shown) {
    LogWarning("the rest of the output is lost: no connection to the master that shows it");
  }
  pump_.on_empty = nullptr;
  pump_.on_progress = nullptr;
  show_timer_.Stop();
  store_.Close();
  master_->Stop([this, outcome = effect.outcome] {
    shepherd_.Close();
    options_.on_finish(outcome);
  });
}

}  // namespace muster
