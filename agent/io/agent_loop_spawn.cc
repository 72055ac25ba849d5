// How the agent starts a worker, and goes on with those that live.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/core/dialects.h"
#include "agent/core/programs.h"
#include "agent/core/worker_argv.h"
#include "agent/io/agent_loop.h"
#include "agent/io/pseudo_terminal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

namespace muster {

// On rank 0's node the round's workers meet in it; another one's port goes to the door.
UniqueFd AgentLoop::BeginStore() {
  if (assignment_.node_rank.value != 0) {
    if (options_.preflight) {
      master_probe_.BeginRound(assignment_, assignment_.agent_store);
    }
    return store_.Release();
  }
  if (!assignment_.agent_store) {
    LeaveStore();
    return UniqueFd();
  }
  guard_ = options_.plan.store_from_any ? nullptr : std::make_shared<StoreGuard>();
  AdmitToStore();
  // Workers that take the place of others may know of their round before this agent does, which
  // hears of it within its lease.
  const bool replaces = !assignment_.started_in.empty();
  store_.Serve(assignment_.world_size, guard_, replaces ? state_.lease : absl::ZeroDuration());
  return UniqueFd();
}

// Its port is rank 0's.
void AgentLoop::LeaveStore() {
  if (options_.config.join.agent_store && !std::exchange(told_of_store_, true)) {
    LogInfo(
        "torch's store is rank 0's (--store worker): the torch or the script of another node "
        "wants it so");
  }
  if (const absl::Status left = store_.LeaveToRankZero(); !left.ok()) {
    Post(StorePortFailed{absl::StrCat("the port of rank 0's store: ", left.message())});
  }
}

void AgentLoop::AdmitToStore() {
  if (guard_ != nullptr) {
    guard_->Admit(assignment_.worker_addresses);
  }
}

// The store stays as it is: workers that live are connected to it. Others may be on other nodes.
void AgentLoop::Do(const KeepRound& effect) {
  assignment_ = effect.assignment;
  MakeRunDir();
  AdmitToStore();
  pump_.KeepRound(assignment_, effect.starts);
  KeepDoor(effect.starts);
  for (const LocalRank local : effect.starts) {
    shepherd_.ClearWorker(local.value);
    alone_ = false;
    workers_[local.value] = Worker();
    SpawnWorker(local);
  }
}

// Nobody comes any more where all have ended well, and been cleared.
void AgentLoop::KeepDoor(const std::vector<LocalRank>& starts) {
  if (state_.cleared) {
    return;
  }
  door_.KeepRound(assignment_);
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    const bool starts_anew = std::find(starts.begin(), starts.end(), LocalRank{i}) != starts.end();
    if (workers_[i].ended && !starts_anew) {
      door_.WorkerEnded(LocalRank{i});
    }
  }
}

// For as long as there is this shepherd.
void AgentLoop::MakeRunDir() {
  if (run_dir_.path().empty() && run_dir_.Make()) {
    shepherd_.SetRunDir(run_dir_.path());
  }
}

// For as long as this agent lives: a worker of a later round has the port of the one before.
absl::StatusOr<std::vector<uint16_t>> AgentLoop::KeepWorkerPorts() {
  const uint32_t workers =
      HasWord(options_.plan.dialects, kDialectTensorFlow) ? options_.config.join.workers : 0;
  while (worker_ports_.size() < workers) {
    absl::StatusOr<BoundPort> kept = ReservePort("", 0, options_.plan.ports);
    if (!kept.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--dialect tf: no port for each of ", workers, " workers: ", kept.status().message()));
    }
    worker_ports_.push_back(*std::move(kept));
  }
  std::vector<uint16_t> numbers;
  for (const BoundPort& kept : worker_ports_) {
    numbers.push_back(kept.port);
  }
  return numbers;
}

void AgentLoop::SpawnWorkers(const absl::Status& may) {
  for (uint32_t i = 0; i < assignment_.workers; ++i) {
    if (assignment_.HasEndedWell(LocalRank{i})) {
      workers_[i].ended = true;
    } else if (may.ok()) {
      SpawnWorker(LocalRank{i});
    } else {
      OnSpawnFailed(i, EINVAL, std::string(may.message()));
    }
  }
}

void AgentLoop::SpawnWorker(LocalRank local) {
  const uint32_t rank = assignment_.RankOf(local).value;
  const PreparedProgram& program = options_.programs[ProgramOf(options_.plan, rank)];
  const WorkPlan& plan = program.plan;
  Worker& worker = workers_[local.value];
  worker.started = BootNow();
  if (!run_dir_.path().empty()) {
    worker.error_file =
        absl::StrCat(run_dir_.path(), "/error-", assignment_.round.n, "-", local.value, ".json");
  }
  if (const absl::Status may = CheckOwnGpu(plan, local, program.environment); !may.ok()) {
    return OnSpawnFailed(local.value, EINVAL, std::string(may.message()));
  }
  MpiMode mpi = MpiServed(plan.mpi, program.facts);
  if (mpi == MpiMode::kPmix && !pmix_.serving()) {
    mpi = MpiMode::kNone;
  }
  const bool offered = OffersPmi1To(program);
  std::vector<EnvVar> variables = WorkerVariables(
      {plan, assignment_, options_.facts, assignment_.agent_store, worker.error_file, local,
       program.facts.torch_version, mpi, placement_.ShareOf(local), placement_.topology(),
       mpi == MpiMode::kPmix ? &pmix_variables_[local.value] : nullptr, pmix_.folder(), offered},
      program.environment);
  const bool on_terminal = plan.pty.has_value() && plan.pty->rank == rank;
  if (on_terminal && !plan.pty->term.empty()) {
    variables.push_back({"TERM", plan.pty->term, "--pty: that of the user's terminal"});
  }
  // With wrappers, or several programs, the words differ between workers; TERM with a terminal.
  if (!program_sent_ || !plan.wraps.empty() || plan.fill || plan.fill_torchrun ||
      plan.pty.has_value() || options_.programs.size() > 1) {
    program_sent_ = true;
    const WorkerNames names = {rank, local.value, assignment_.node_rank.value,
                               options_.facts.hostname, assignment_.world_size};
    shepherd_.SetProgram({plan.wdir, WorkerArgv(plan, names),
                          EntriesWithout(program.environment, variables), plan.hold,
                          plan.no_new_privileges});
  }
  std::vector<std::string> own;
  own.reserve(variables.size());
  for (const EnvVar& variable : variables) {
    own.push_back(absl::StrCat(variable.name, "=", variable.value));
  }
  absl::StatusOr<PmiEnd> pmi = OpenPmi(local, mpi, offered);
  if (!pmi.ok()) {
    return OnSpawnFailed(
        local.value, pmi.status().code() == absl::StatusCode::kResourceExhausted ? EMFILE : EINVAL,
        std::string(pmi.status().message()));
  }
  if (on_terminal) {
    return SpawnOnTerminal(local, own, *std::move(pmi));
  }
  absl::StatusOr<OutputPump::WorkerEnds> ends = pump_.Open(local.value);
  if (!ends.ok()) {
    return OnSpawnFailed(local.value, EMFILE, std::string(ends.status().message()));
  }
  absl::StatusOr<UniqueFd> in = StdinOf(plan, rank);
  if (!in.ok()) {
    return OnSpawnFailed(local.value, EMFILE, std::string(in.status().message()));
  }
  shepherd_.Spawn(local.value, own, placement_.BindingOf(local), *std::move(in),
                  std::move(ends->out), std::move(ends->err), *std::move(pmi));
}

absl::StatusOr<UniqueFd> AgentLoop::StdinOf(const WorkPlan& plan, uint32_t rank) {
  if (plan.stdin_mode != StdinMode::kAll &&
      (plan.stdin_mode != StdinMode::kRank || plan.stdin_rank != rank)) {
    return UniqueFd();
  }
  if (!options_.stdin_of_worker.valid()) {
    return stdin_.Open();
  }
  UniqueFd out(fcntl(options_.stdin_of_worker.get(), F_DUPFD_CLOEXEC, 3));
  if (!out.valid()) {
    return absl::ResourceExhaustedError("no descriptors left for its stdin");
  }
  return out;
}

void AgentLoop::SpawnOnTerminal(LocalRank local, const std::vector<std::string>& own, PmiEnd pmi) {
  absl::StatusOr<PseudoTerminal> terminal = OpenPseudoTerminal(window_.rows, window_.columns);
  if (!terminal.ok()) {
    return OnSpawnFailed(local.value, ENXIO, std::string(terminal.status().message()));
  }
  terminal_ = std::move(terminal->ours);
  UniqueFd seen(fcntl(terminal_.get(), F_DUPFD_CLOEXEC, 3));
  UniqueFd typed(fcntl(terminal_.get(), F_DUPFD_CLOEXEC, 3));
  UniqueFd workers(fcntl(terminal->workers.get(), F_DUPFD_CLOEXEC, 3));
  if (!seen.valid() || !typed.valid() || !workers.valid()) {
    return OnSpawnFailed(local.value, EMFILE, "no descriptors left for its terminal");
  }
  if (const absl::Status opened =
          pump_.OpenTerminal(local.value, std::move(seen), std::move(workers));
      !opened.ok()) {
    return OnSpawnFailed(local.value, EMFILE, std::string(opened.message()));
  }
  stdin_.OpenTerminal(std::move(typed));
  shepherd_.SpawnOnTerminal(local.value, own, placement_.BindingOf(local),
                            std::move(terminal->workers), std::move(pmi));
}

// Its foreground processes get SIGWINCH from the kernel.
void AgentLoop::SetWindow(uint16_t rows, uint16_t columns) {
  window_.rows = rows;
  window_.columns = columns;
  if (terminal_.valid()) {
    SetTerminalSize(terminal_.get(), rows, columns);
  }
}

void AgentLoop::ReportBindings() {
  if (!options_.plan.binding.report || placement_.plan() == nullptr) {
    return;
  }
  std::vector<uint32_t> ranks;
  std::vector<pid_t> pids;
  for (uint32_t i = 0; i < assignment_.workers; ++i) {
    ranks.push_back(assignment_.RankOf(LocalRank{i}).value);
    pids.push_back(workers_[i].pid);
  }
  bindings_.Begin(placement_, std::move(ranks), pids);
}

}  // namespace muster
