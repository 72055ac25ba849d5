// What a worker's process was to its MPI when it ended, whichever protocol that speaks. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/messages.h"

namespace muster {

struct MpiEnd {
  enum class Kind : uint8_t { kNoMpi, kInside, kFinalized, kAborted };
  Kind kind = Kind::kNoMpi;
  int32_t code = 0;     // kAborted
  std::string message;  // kAborted; "" = none was given
};

// What the end of a worker's MPI says about its exit: MPI_Abort's code and message; a program that
// leaves its MPI without a word has failed, whatever it exited with.
void TellOfMpi(const MpiEnd& end, WorkerExit& exit);

// A client that has said that it aborts may wait for its end; it is killed after this time.
inline constexpr absl::Duration kMpiAbortPatience = absl::Milliseconds(100);

// For the user, where workers wait in MPI_Init for `missing` others that have ended without it.
std::string MissingInMpi(size_t missing, size_t waiting);

}  // namespace muster
