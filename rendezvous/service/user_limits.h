// What one user of a daemon has of it at most, so that the others have the rest. Values. Whoever
// knows the one secret of a master without users has all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "proto/base/limits.h"

namespace muster {

struct UserLimits {
  size_t jobs = 128;  // of kJobsMax
  // Agents, of all jobs: as many as one job may have. A daemon with fewer descriptors gives less.
  size_t agents = kNodesMax;
  // Of what barriers of MPI jobs hold: eight of the largest at one time, or any number as they are
  // (some hundred bytes a rank).
  size_t fence_bytes = 8 * kFenceBytesMax;
  // Of answers that wait for their connections to take them.
  size_t modex_bytes = size_t{256} << 20;
  // On the disk, and in a batch of the journal: twice what one job may have.
  size_t journal_bytes = size_t{2} << 30;
};

// What a user has of it now.
struct UserUse {
  size_t agents = 0;  // connected
  size_t modex_bytes = 0;
};

// By name; those of whom nothing is kept have none.
using UserUses = std::map<std::string, UserUse>;

}  // namespace muster
