// How many workers run on which node: the arithmetic behind --hosts, --nnodes, -n, -ppn and
// --nproc-per-node. Pure; thread-safe. Nodes keep the order of the host list, always; ranks fill
// them in that order (block placement), but for A7 and A8.
//
// Rules, in this order:
//  A1 --nproc-per-node P is torchrun's: P on every node, counts in the host list do not matter.
//  With -n N both must
//     agree: without --nnodes, the first N / P hosts are used.
//  A2 -ppn P is mpiexec's: P on every node; with -n N nodes are filled in order and the last one
//  gets the rest. A3 -n N alone: hosts are filled by their slots in order, as mpirun does; with
//  --nnodes K the first K hosts get
//     one worker each in turn, as srun does, within their slots.
//  A4 none of them: every host runs as many workers as it has slots.
//  A5 --nnodes below the number of hosts: the first ones are used; above it: an error.
//  A6 more workers than slots is an error, unless oversubscribing is allowed: then the rest is
//  dealt out in turn.
//  A7 kGoRound is Hydra's way with -hosts and -f: where all hosts are full by their slots, or by
//  -ppn, they are filled again from the first one.
//  A8 kInTurn is mpirun's --map-by node: each host gets one worker in turn, within its slots, and
//  the ranks are counted like that, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/schedule/hostfile.h"
#include "proto/base/work_plan.h"

namespace muster {

enum class RankOrder : uint8_t { kFill, kGoRound, kInTurn };

// A count the user gave, and how: "-n 5", "PET_NNODES=2 (environment)".
struct NamedCount {
  uint32_t value = 0;
  std::string said;
};

struct AllocationRequest {
  std::vector<HostEntry> hosts;         // at least one
  std::string hosts_said;               // "--hosts a,b"
  std::optional<NamedCount> nodes_min;  // --nnodes
  std::optional<NamedCount> nodes_max;
  std::optional<NamedCount> total;     // -n
  std::optional<NamedCount> per_node;  // -ppn
  // --nproc-per-node; for kAuto, kCpu and kGpu the value is unknown before the nodes are asked.
  WorkersWanted wanted = WorkersWanted::kNumber;
  std::optional<NamedCount> exact;
  bool oversubscribe = false;
  RankOrder order = RankOrder::kFill;
};

struct NodeWorkers {
  HostEntry host;
  WorkersWanted wanted = WorkersWanted::kNumber;
  uint32_t workers = 1;              // kNumber
  std::vector<uint32_t> ranks = {};  // by local rank; empty = the next ones in order of the nodes
  bool operator==(const NodeWorkers&) const = default;
};

struct Allocation {
  std::vector<NodeWorkers> nodes;  // in order of node rank; none runs 0 workers
  uint32_t nodes_min = 1;          // fewer may form a round (--nnodes MIN:MAX)
  std::vector<std::string> notes;  // said once to the user
};

absl::StatusOr<Allocation> AllocateHosts(const AllocationRequest& request);

// `ranks` of each node, ascending, in order of the nodes. What follows in order anyway is not said.
void SetRanks(std::vector<std::vector<uint32_t>> ranks, std::vector<NodeWorkers>& nodes);

// `total` workers on `nodes` nodes, as even as can be, the first ones one more.
std::vector<uint32_t> SpreadEvenly(uint32_t total, uint32_t nodes);

}  // namespace muster
