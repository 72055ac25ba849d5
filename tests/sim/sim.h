// The deterministic simulator: the real cores of one master and many agents, scripted workers, one
// virtual clock, one seed.
//
// First faults (messages lost, late, repeated, out of order; links closed or cut one way; agents
// that crash, freeze, come back; whole racks that do; clocks that differ and jump; workers that
// die; a master that stands still, or is killed and followed by another with its journal), then
// everything heals and the job must come to its end, with the right exit code and nobody left.
// Invariants are checked after every event. Same options, same digest, everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rendezvous/core/types.h"

namespace muster::sim {

struct Options {
  uint64_t seed = 1;
  uint32_t agents = 16;
  absl::Duration run =
      absl::Seconds(60);  // faults: in its first half. Without: as long run workers
  bool faults = true;
  // Without faults: a third into the run the whole job stands still for so long.
  absl::Duration standstill = absl::ZeroDuration();
  std::function<void(const std::string&)> trace;  // a line an event, for people; may be empty
};

struct Result {
  absl::Status status;  // the first broken invariant, with the virtual time
  uint64_t events = 0;
  uint64_t digest = 0;
  uint32_t faults = 0;      // injected
  uint32_t racks = 0;       // that failed as a whole
  uint32_t rounds = 0;      // started
  uint32_t grown = 0;       // that were stopped for a newcomer
  uint32_t came_back = 0;   // agents that were to be started again
  uint32_t taken_over = 0;  // masters that followed another, with its journal
  bool went_on = false;     // the last round ended well, with another master than it began with
  absl::Duration ended;     // virtual time at the end
  JobReport report;
};

Result Run(const Options& options);

// "muster-sim --seed 7 --agents 64 --virtual-seconds 60 --faults 1"
std::string CommandLine(const Options& options);

}  // namespace muster::sim
