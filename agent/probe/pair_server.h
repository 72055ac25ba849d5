// The end of a tried connection that answers. A caller says a word that only probes of the same
// doctor know, then sends frames: eight bytes of length (little-endian), and so many bytes; each
// frame is answered by one byte once all of it is there. Threads of its own, at most
// kPairCallersMax at a time; they end with the process.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "proto/base/unique_fd.h"

namespace muster {

inline constexpr size_t kPairCallersMax = 64;  // a node is called by at most 15
inline constexpr size_t kPairFrameBytesMax = 1u << 20;

// Answers on `listener` from now on. Errors: ResourceExhausted (no thread).
absl::Status ServePairs(UniqueFd listener, const std::string& word);

}  // namespace muster
