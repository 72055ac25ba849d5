// Who this process is: from the variables that `launch` sets (proto/base/env_names.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/status.h"
#include "muster/types.h"

namespace muster {

// Whether ranks of a node read from each other's memory: kAuto where that is quicker here.
enum class DirectReads : uint8_t { kOff, kAuto, kOn };

struct WorkerIdentity {
  bool launched = false;  // false: a world of one
  uint64_t round = 0;
  uint32_t rank = 0;
  uint32_t size = 1;
  uint32_t local_rank = 0;
  uint32_t local_size = 1;
  uint32_t node_rank = 0;
  uint32_t nodes = 1;
  int agent_fd = -1;
  double timeout_s = 0;                     // MUSTER_TIMEOUT; 0 = none
  DirectReads direct = DirectReads::kAuto;  // MUSTER_DIRECT
  // Which all ranks must have alike:
  bool check = false;       // MUSTER_CHECK
  Wire wire = Wire::kFull;  // MUSTER_WIRE
  std::string notice;       // for the user: this looks like a mistake
};

// `get` is getenv. InvalidArgument: a variable that makes no sense, by its name.
StatusOr<WorkerIdentity> ReadIdentity(const std::function<const char*(const char*)>& get);

}  // namespace muster
