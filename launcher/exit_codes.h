// Exit codes of launch itself.
#pragma once

namespace muster {

inline constexpr int kExitFailed = 1;  // the job never formed, a node was lost, a disk is full
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNobodyReads = 141;  // stdout was closed: 128 + SIGPIPE

}  // namespace muster
