// What `launch chaos` does to one node, so that users see what their job makes of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "proto/base/ids.h"

namespace muster {

enum class DrillKind : uint8_t {
  kKillWorker,  // SIGKILL to one worker of the present round
  kKillNode,    // SIGKILL to the agent and all below it, as if the machine had lost its power
  kFreeze,      // SIGSTOP to the agent and all below it
  // On connections of ours: of the agent with the master, of its workers' SDK with other nodes.
  kCut,   // nothing goes there
  kSlow,  // all arrives later
};

inline constexpr absl::Duration kDrillLengthMax = absl::Hours(1);
inline constexpr size_t kDrillsMax = 16;  // of one node, not yet done

struct DrillOrder {
  uint32_t seq = 0;  // 1, 2, ... of the whole job
  DrillKind kind = DrillKind::kKillWorker;
  LocalRank worker;       // kKillWorker
  absl::Duration delay;   // kSlow
  absl::Duration length;  // kFreeze, kCut, kSlow: then all is as before
  bool operator==(const DrillOrder&) const = default;
};

}  // namespace muster
