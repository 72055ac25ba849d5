#include "agent/core/mpi_end.h"

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/text.h"

namespace muster {

namespace {

constexpr int kShellsSigpipe =
    128 + SIGPIPE;  // what a shell exits with where that ends its last one

}  // namespace

bool MpiEnd::Abort(int32_t with, std::string why) {
  if (kind == Kind::kAborted || kind == Kind::kRefused) {
    return false;
  }
  kind = Kind::kAborted;
  code = with;
  message = std::move(why);
  return true;
}

bool MpiEnd::Refuse(std::string why) {
  if (kind == Kind::kAborted || kind == Kind::kRefused) {
    return false;
  }
  kind = Kind::kRefused;
  message = std::move(why);
  return true;
}

void TellOfMpi(const MpiEnd& end, WorkerExit& exit) {
  const bool exited = exit.kind == ExitKind::kExited;
  if (end.kind == MpiEnd::Kind::kAborted) {
    exit.detail =
        absl::StrCat("MPI_Abort(", end.code, ")", end.message.empty() ? "" : ": ", end.message);
    if (!exited) {  // it was ended by us
      exit.kind = ExitKind::kExited;
      exit.code = end.code & 0xff;  // as an exit status has it
    }
    if (exit.Ok()) {  // MPI_Abort(0), or a multiple of 256: the others wait for it all the same
      exit.code = 1;
    }
  } else if (end.kind == MpiEnd::Kind::kRefused) {
    exit.detail = end.message;
    if (!exited || exit.Ok()) {
      exit.kind = ExitKind::kExited;
      exit.code = 1;
    }
  } else if (end.kind == MpiEnd::Kind::kFinalized &&
             exit.code == (exited ? kShellsSigpipe : static_cast<int>(SIGPIPE))) {
    // MPI_Finalize has shut its connection down, so who comes next writes into the void.
    exit.detail = absl::StrCat("SIGPIPE after MPI_Finalize, as of ", kSecondMpiInit);
  } else if (end.kind == MpiEnd::Kind::kInside && exited && (end.again || exit.Ok())) {
    exit.detail =
        end.again
            ? absl::StrCat("it did not get through ", kSecondMpiInit)
            : "it exited with status 0 after MPI_Init, without MPI_Finalize, which is a failure";
    exit.code = exit.Ok() ? 1 : exit.code;
  }
}

std::string MissingInMpi(size_t missing, size_t waiting) {
  return absl::StrCat(Plural(missing, "worker", "workers"),
                      " of this node ended without MPI_Init, and ",
                      Plural(waiting, "other waits", "others wait"),
                      " for all of them there: every rank of an MPI job has to call it");
}

std::string NobodyCameInMpi(absl::string_view kind, absl::string_view server, size_t workers,
                            absl::string_view hint) {
  const std::string nobody =
      workers == 1 ? std::string("the worker of this node did not come")
                   : absl::StrCat("none of the ", workers, " workers of this node came");
  return absl::StrCat("--mpi ", kind, ": ", nobody, " to the ", server,
                      " server. Where they called MPI_Init, each was a world of its own (rank 0 of "
                      "1): ",
                      hint, " If they call no MPI, --mpi none says so.");
}

}  // namespace muster
