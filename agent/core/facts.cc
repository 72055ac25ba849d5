#include "agent/core/facts.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/core/cpu_count.h"
#include "proto/base/build_info.h"

namespace muster {
namespace {

// Beginnings of the torch versions that were run against the agent's store
// (tests/integration/store_torch_test.py).
constexpr absl::string_view kTorchStoreVersions[] = {"1.13.", "2.6.", "2.11."};

bool TorchTakesOurs(absl::string_view version) {
  return !TorchLacksLibuv(version) &&
         std::any_of(std::begin(kTorchStoreVersions), std::end(kTorchStoreVersions),
                     [&](absl::string_view known) { return absl::StartsWith(version, known); });
}

// As a script's line has it: 'tcp://127.0.0.1:1234', os.environ["MASTER_ADDR"] = "localhost".
bool SaysLoopback(absl::string_view line) {
  return absl::StrContains(line, "localhost") || absl::StrContains(line, "127.0.0.") ||
         absl::StrContains(line, "::1");
}

}  // namespace

uint32_t NodeFacts::cpus_usable() const { return CpusUsable(cpus_allowed, cpu_quota); }

bool StoreIsAgent(StoreMode mode, const ProgramFacts& facts) {
  if (mode != StoreMode::kAuto) {
    return mode == StoreMode::kAgent;
  }
  return TorchTakesOurs(facts.torch_version) && facts.own_meeting_place.empty();
}

std::string StartsRanksNotice(const ProgramFacts& facts, uint32_t workers) {
  if (!facts.starts_ranks || workers < 2) {
    return "";
  }
  return absl::StrCat(facts.program, " starts its ranks itself (mp.spawn), and launch starts ",
                      workers,
                      " of it on a node: start one (--nproc-per-node 1), or let it be one "
                      "rank: RANK, LOCAL_RANK and WORLD_SIZE say which");
}

std::string MeetingPlaceNotice(StoreMode mode, const ProgramFacts& facts, bool one_node) {
  if (!one_node && !facts.starts_ranks && SaysLoopback(facts.own_meeting_place)) {
    return absl::StrCat(facts.program, " chooses where its ranks meet (", facts.own_meeting_place,
                        "), and that is each node's own address: ranks of other nodes than rank "
                        "0's wait there in vain. Without that line they meet at the MASTER_ADDR "
                        "and MASTER_PORT that launch gives.");
  }
  if (mode != StoreMode::kAuto || facts.own_meeting_place.empty() || facts.starts_ranks ||
      !TorchTakesOurs(facts.torch_version)) {
    return "";
  }
  return absl::StrCat(
      facts.program, " chooses where its ranks meet (", facts.own_meeting_place,
      "), so rank 0 has to listen there (--store worker). Without that it would meet at the "
      "MASTER_ADDR and MASTER_PORT that launch gives, on a port that nobody else has.");
}

bool TorchLacksLibuv(absl::string_view torch_version) {
  return absl::EndsWith(torch_version, "+debian");
}

MpiMode MpiServed(MpiMode mode, const ProgramFacts& facts) {
  if (mode != MpiMode::kAuto) {
    return mode;
  }
  if (facts.mpi == "Open MPI" && BuiltWithPmix()) {
    return MpiMode::kPmix;
  }
  return facts.mpi == "MPICH" ? MpiMode::kPmi1 : MpiMode::kNone;
}

bool OffersPmi1(MpiMode mode, const ProgramFacts& facts, uint32_t world_size) {
  return mode == MpiMode::kAuto && world_size != 1 && MpiServed(mode, facts) == MpiMode::kNone &&
         !facts.starts_ranks && !facts.runs_launcher;
}

absl::Status CheckOneWorld(MpiMode mode, const std::vector<ProgramFacts>& programs) {
  const auto one_of = [&](MpiMode served) -> const ProgramFacts* {
    const auto at = std::find_if(programs.begin(), programs.end(), [&](const ProgramFacts& one) {
      return one.found && MpiServed(mode, one) == served;
    });
    return at == programs.end() ? nullptr : &*at;
  };
  const ProgramFacts* const mpich = one_of(MpiMode::kPmi1);
  const ProgramFacts* const open_mpi = one_of(MpiMode::kPmix);
  if (mpich != nullptr && open_mpi != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("--mpi auto: ", mpich->program,
                     " links MPICH, and another program of the job Open MPI: they cannot be one "
                     "world; start them as two jobs, or with --mpi none"));
  }
  const ProgramFacts* const none = one_of(MpiMode::kNone);
  if (none == nullptr || (mpich == nullptr && open_mpi == nullptr)) {
    return absl::OkStatus();
  }
  const bool pmix = open_mpi != nullptr;
  return absl::FailedPreconditionError(absl::StrCat(
      "--mpi auto: ", none->program, " is served no ", pmix ? "PMIx" : "PMI-1", ", and ",
      (pmix ? open_mpi : mpich)->program,
      " is, which would wait for it in MPI_Init for ever: say --mpi ", pmix ? "pmix" : "pmi1",
      ", if it calls MPI_Init, too, or start them as two jobs"));
}

std::string MpiNotice(MpiMode mode, const ProgramFacts& facts, uint32_t world_size) {
  if (facts.mpi.empty() || world_size == 1 || mode != MpiMode::kAuto ||
      MpiServed(mode, facts) != MpiMode::kNone) {
    return "";
  }
  if (facts.mpi != "Open MPI") {
    return absl::StrCat(facts.program, " uses an MPI", facts.is_python ? " through mpi4py" : "",
                        ", and which one cannot be seen. It is offered PMI-1, which MPICH and its "
                        "relatives speak: say --mpi pmix if it is Open MPI.");
  }
  return absl::StrCat(
      facts.program, facts.is_python ? " uses " : " links ", facts.mpi,
      ", which needs its launcher to speak PMIx, for which this muster was built without libpmix.\n"
      "Where it calls MPI_Init, that fails, or ",
      world_size > 1 ? absl::StrCat("each of the ", world_size, " workers") : "each worker",
      " would be a world of its own (rank 0 of 1). Start it with mpirun.");
}

std::string LoadedMpiNotice(uint32_t rank, const LoadedMpi& loaded, uint32_t world_size) {
  const bool mpich = loaded.mpi == "MPICH";
  return absl::StrCat("--mpi auto: rank ", rank, " has loaded ", loaded.mpi, " (", loaded.library,
                      "), which the program's file did not show, ",
                      mpich ? "and has not come to the PMI-1 server that it is offered"
                            : "so that it is not served",
                      ": where it calls MPI_Init, ", mpich ? "" : "that fails, or ", "each of the ",
                      world_size, " workers is a world of its own (rank 0 of 1). ",
                      mpich             ? "Start it with its own mpiexec"
                      : BuiltWithPmix() ? "Say --mpi pmix"
                                        : "Start it with mpirun",
                      "; if it does not, --mpi none says so.");
}

absl::StatusOr<uint32_t> WorkersOnNode(const WorkPlan& plan, const NodeFacts& facts) {
  switch (plan.workers_wanted) {
    case WorkersWanted::kNumber:
    case WorkersWanted::kObjects:
      return plan.workers;
    case WorkersWanted::kCpu:
      return facts.cpus_usable();
    case WorkersWanted::kAuto:
      return facts.gpus > 0 ? facts.gpus : facts.cpus_usable();
    case WorkersWanted::kGpu:
      break;
  }
  if (facts.gpus == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("--nproc-per-node gpu: ", facts.hostname,
                     " has no GPU that workers may see; use cpu, auto or a number"));
  }
  return facts.gpus;
}

}  // namespace muster
