// Narrow numbers: bfloat16 in place of float32.
#pragma once

#include <cstdint>

#include "worker_sdk/algorithm/schedule.h"

namespace muster {

inline bool IsNarrow(const Ref& ref) { return ref.space == Space::kNarrow; }

// Bytes of bfloat16, from those of float32.
inline uint64_t OfNarrow(uint64_t bytes) { return bytes / 2; }

}  // namespace muster
