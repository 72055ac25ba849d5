// What a schedule must bring, by a second, plain version of each collective.
#pragma once

#include <cstdint>

#include "worker_sdk/algorithm/schedule.h"

namespace muster {

// Runs `call` in a world of its own; whatever is wrong is a failure of the test.
void RunOnce(const Layout& layout, uint64_t slot_bytes, uint32_t carriers, const Call& call,
             bool in_place, uint64_t seed, bool direct = false);
// The same, also with narrow numbers and in place where it may.
void CheckOne(const Layout& layout, uint64_t slot_bytes, uint32_t carriers, const Call& call,
              uint64_t seed);

}  // namespace muster
