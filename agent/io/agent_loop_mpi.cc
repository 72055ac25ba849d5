// What the agent serves to the MPI of its workers.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/core/programs.h"
#include "agent/io/agent_loop.h"
#include "proto/base/build_info.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

// Of the workers' environment: what a process needs to find its libraries and files.
constexpr const char* kHelperVariables[] = {"HOME", "LD_LIBRARY_PATH", "PATH", "TZ", "USER"};

}  // namespace

bool AgentLoop::ServesPmix() const {
  return std::any_of(options_.programs.begin(), options_.programs.end(),
                     [](const PreparedProgram& program) {
                       return MpiServed(program.plan.mpi, program.facts) == MpiMode::kPmix;
                     });
}

bool AgentLoop::OffersPmi1To(const PreparedProgram& program) const {
  return OffersPmi1(program.plan.mpi, program.facts, assignment_.world_size) && !ServesPmix();
}

// Where workers are replaced, what is offered is a refusal: without it each would be a world of
// one.
Pmi1Round AgentLoop::PmiRound() const {
  Pmi1Round out = Pmi1RoundOf(options_.plan, assignment_);
  out.refusal = assignment_.started_in.empty() ? "" : std::string(kNoMpiReplacement);
  return out;
}

// What is only offered is not worth a failure: an MPI that does not find it fails itself.
absl::StatusOr<PmiEnd> AgentLoop::OpenPmi(LocalRank local, MpiMode mpi, bool offered) {
  if (mpi != MpiMode::kPmi1 && !offered) {
    return PmiEnd();
  }
  if (!offered && !assignment_.started_in.empty()) {
    return absl::FailedPreconditionError(kNoMpiReplacement);
  }
  absl::StatusOr<UniqueFd> opened = pmi_.Open(local);
  if (!opened.ok() && !offered) {
    return opened.status();
  }
  return PmiEnd{opened.ok() ? *std::move(opened) : UniqueFd(), offered};
}

absl::Status AgentLoop::CheckMpi() const {
  std::vector<ProgramFacts> programs;
  for (const PreparedProgram& program : options_.programs) {
    programs.push_back(program.facts);
  }
  return CheckOneWorld(options_.plan.mpi, programs);
}

absl::Status AgentLoop::CheckPmix() const {
  if (!assignment_.started_in.empty()) {
    return absl::FailedPreconditionError(kNoMpiReplacement);
  }
  if (run_dir_.path().empty()) {
    return absl::FailedPreconditionError(
        "--mpi pmix: neither /dev/shm nor /tmp takes the files of a PMIx server");
  }
  return absl::OkStatus();
}

// A rank that is the whole world is the same one without its server, which is a package of its own.
bool AgentLoop::NeedsNoPmix() const {
  const PreparedProgram& program = options_.programs.front();
  return assignment_.world_size == 1 && program.plan.mpi == MpiMode::kAuto &&
         !FindPmixHelper(program.environment.Find("PATH")).ok();
}

// Of one rank of the job, as the others do the same.
void AgentLoop::WatchForMpi() {
  const PreparedProgram& program = options_.programs[ProgramOf(options_.plan, 0)];
  if (assignment_.world_size > 1 && assignment_.RankOf(LocalRank{0}).value == 0 &&
      !workers_[0].ended && program.plan.mpi == MpiMode::kAuto && program.facts.mpi.empty()) {
    mpi_watch_.Begin(0, workers_[0].pid, assignment_.world_size,
                     [this] { return pmi_.HasCome(LocalRank{0}); });
  }
}

void AgentLoop::BeginPmix() {
  if (const absl::Status may = CheckPmix(); !may.ok()) {
    return SpawnWorkers(may);
  }
  if (NeedsNoPmix()) {
    LogWarning(absl::StrCat(
        "--mpi auto: no muster-pmix on this node: ", options_.programs.front().plan.argv.front(),
        " starts without it, as a world of its own, which one rank is anyway"));
    return SpawnWorkers(absl::OkStatus());
  }
  pmix_.BeginRound(PmixWorldOf(options_.plan, assignment_, options_.facts.hostname,
                               absl::StrCat(run_dir_.path(), "/mpi-", assignment_.round.n)));
}

WorkerPmix::Callbacks AgentLoop::PmixCallbacks() {
  WorkerPmix::Callbacks out;
  out.start = [this](UniqueFd socket) { StartPmixHelper(std::move(socket)); };
  out.on_ready = [this](absl::StatusOr<std::vector<std::vector<std::string>>> variables) {
    OnPmixReady(std::move(variables));
  };
  out.enter = [this](std::string bytes) { EnterFence(std::move(bytes)); };
  out.seek = [this](uint32_t node, uint32_t rank) {
    GoOnSeeking(modex_.Seek(node, rank, BootNow()));
  };
  out.tell = [this](uint32_t rank, const absl::StatusOr<std::string>& bytes) {
    SendModexes(modex_.Shown(rank, bytes));
  };
  out.kill = [this](LocalRank local) { shepherd_.KillWorker(local.value); };
  return out;
}

void AgentLoop::StartPmixHelper(UniqueFd socket) {
  const EnvBase& base = options_.programs.front().environment;
  const absl::StatusOr<std::string> helper = FindPmixHelper(base.Find("PATH"));
  if (!helper.ok()) {
    return pmix_.HelperFailed(std::string(helper.status().message()));
  }
  std::vector<std::string> environment;
  for (const char* const name : kHelperVariables) {
    if (const char* value = base.Find(name); value != nullptr) {
      environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  shepherd_.StartHelper({*helper, std::string(BuildName())}, environment, std::move(socket));
}

void AgentLoop::OnPmixReady(absl::StatusOr<std::vector<std::vector<std::string>>> variables) {
  if (clearing_) {
    return;  // the round was killed meanwhile: nothing is started behind that
  }
  const absl::Status may = variables.status();
  pmix_variables_.clear();
  if (may.ok()) {
    pmix_variables_ = *std::move(variables);
  }
  SpawnWorkers(may);
  SignalNow();
}

// All workers of this node are in a barrier.
void AgentLoop::EnterFence(std::string text) {
  if (assignment_.nodes == 1) {
    return Fenced(std::move(text));
  }
  SendFences(fences_.Enter(std::move(text)));
}

void AgentLoop::Fenced(const absl::StatusOr<std::string>& text) {
  if (pmix_.serving()) {
    pmix_.Fenced(text);
  } else {
    pmi_.Fenced(text);
  }
}

// What finds no connection is sent again on the next one.
void AgentLoop::SendFences(FenceMember::Pieces pieces) {
  for (FencePiece& piece : pieces) {
    piece.node = state_.node;
    piece.incarnation = state_.incarnation;
    master_->SendFence(std::move(piece));
  }
}

void AgentLoop::TakeFence(const FencePiece& piece) {
  if (piece.node != state_.node || piece.incarnation != state_.incarnation) {
    return;
  }
  FenceMember::Taken taken = fences_.Take(piece);
  if (taken.ask.has_value()) {
    SendFences({*std::move(taken.ask)});
  } else if (taken.result.has_value()) {
    Fenced(*taken.result);
  }
}

void AgentLoop::SendModexes(ModexMember::Notes notes) {
  for (ModexNote& note : notes) {
    note.node = state_.node;
    note.incarnation = state_.incarnation;
    master_->SendModex(std::move(note));
  }
}

void AgentLoop::TakeModex(const ModexNote& note) {
  if (note.node != state_.node || note.incarnation != state_.incarnation) {
    return;
  }
  const ModexMember::Taken taken = modex_.Take(note);
  if (taken.found.has_value()) {
    pmix_.Found(taken.found->rank, taken.found->bytes);
  } else if (taken.show.has_value() && pmix_.serving()) {
    pmix_.Show(*taken.show);
  } else if (taken.show.has_value()) {
    SendModexes(
        modex_.Shown(*taken.show, absl::UnavailableError(absl::StrCat(
                                      "the node of rank ", *taken.show, " has no PMIx server"))));
  }
}

void AgentLoop::GoOnSeeking(const ModexMember::Due& due) {
  SendModexes(due.asks);
  for (const ModexMember::Found& found : due.given_up) {
    pmix_.Found(found.rank, found.bytes);
  }
  if (modex_.seeks() && !modex_timer_.active()) {
    modex_timer_.StartAfter(kModexAskAgain);
  }
}

}  // namespace muster
