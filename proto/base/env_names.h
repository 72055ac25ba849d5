// Names of our own environment variables. Without Abseil: the worker SDK reads them too. A worker
// may rely on all of them but kEnvSecret; numbers are decimal.
#pragma once

namespace muster {

// In every worker. MUSTER_ROUND is the fencing token (RoundId::Token()): it only grows within a
// job, also where Slurm runs that again, so a checkpoint that carries it shows which of two writers
// is the older one. The others repeat what the torch names say; an inner launcher (torchrun in a
// worker) rewrites those, these stay.
inline constexpr char kEnvJobId[] = "MUSTER_JOB_ID";
inline constexpr char kEnvRound[] = "MUSTER_ROUND";
inline constexpr char kEnvRank[] = "MUSTER_RANK";
inline constexpr char kEnvWorldSize[] = "MUSTER_WORLD_SIZE";
inline constexpr char kEnvLocalRank[] = "MUSTER_LOCAL_RANK";
inline constexpr char kEnvLocalSize[] = "MUSTER_LOCAL_SIZE";
inline constexpr char kEnvNodeRank[] = "MUSTER_NODE_RANK";
inline constexpr char kEnvNodes[] = "MUSTER_NODES";
inline constexpr char kEnvAgentFd[] = "MUSTER_AGENT_FD";  // the door: proto/base/worker_link.h

// "1" in a worker that --restart=one started in place of one that failed, while the others live on;
// absent in all others.
inline constexpr char kEnvReplacement[] = "MUSTER_REPLACEMENT";

// Between our own programs; removed from what workers inherit.
inline constexpr char kEnvSecret[] = "MUSTER_SECRET";

}  // namespace muster
