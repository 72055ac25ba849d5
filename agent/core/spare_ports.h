// Whether a node can do without a port of --port-range for two minutes.
#pragma once

#include <cstdint>

#include "proto/base/port_range.h"

namespace muster {

// What agents, workers and stores want of a node, beside one for each worker.
inline constexpr uint32_t kPortsBesideWorkers = 32;

// The job's own ports go first, and it may need all of a small range.
inline bool HasPortToSpare(PortRange range, uint32_t workers) {
  const uint32_t ports = uint32_t{range.high} - range.low + 1;
  return range.Any() || ports >= kPortsBesideWorkers + workers;
}

}  // namespace muster
