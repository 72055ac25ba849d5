// What a worker's process was to its MPI when it ended, whichever protocol that speaks. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/base/messages.h"

namespace muster {

struct MpiEnd {
  enum class Kind : uint8_t { kNoMpi, kInside, kFinalized, kAborted, kRefused };
  Kind kind = Kind::kNoMpi;
  int32_t code = 0;     // kAborted
  std::string message;  // kAborted: "" = none was given; kRefused: why
  bool again = false;   // kInside: it had finalized before

  // What its client says, from any of its threads: who has aborted has, whatever comes behind.
  void Init() {
    again = again || kind == Kind::kFinalized;
    kind = kind == Kind::kAborted || kind == Kind::kRefused ? kind : Kind::kInside;
  }
  void Finalize() { kind = kind == Kind::kInside ? Kind::kFinalized : kind; }
  // False: it has said so before; its end is under way, and is not put off.
  bool Abort(int32_t with, std::string why);
  // It asked for a world that it cannot have: its worker has failed. False as above.
  bool Refuse(std::string why);
};

// What the end of a worker's MPI says about its exit: MPI_Abort's code and message; a program that
// leaves its MPI without a word has failed, whatever it exited with, as has one that was refused.
void TellOfMpi(const MpiEnd& end, WorkerExit& exit);

// A client that has said that it aborts may wait for its end; it is killed after this time.
inline constexpr absl::Duration kMpiAbortPatience = absl::Milliseconds(100);

// For the user: why a worker's second MPI_Init is refused.
inline constexpr absl::string_view kSecondMpiInit =
    "a second MPI_Init in one worker: the world of a job is there once for each. Start the second "
    "program as a job of its own, or say --mpi none if each is to be a world of its own";

// For the user, where workers wait in MPI_Init for `missing` others that have ended without it.
std::string MissingInMpi(size_t missing, size_t waiting);

// The same, where all `workers` of a node have ended well, and none has come to its `server`
// (--mpi `kind`): each may have been a world of its own. `hint`: what else their MPI may be.
std::string NobodyCameInMpi(absl::string_view kind, absl::string_view server, size_t workers,
                            absl::string_view hint);

}  // namespace muster
