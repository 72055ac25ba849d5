// What `launch --plan` shows: nodes, ranks, who starts them and with which command, without
// starting anything. Values and text only; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/job_spec.h"
#include "proto/base/messages.h"

namespace muster {

struct PlanNode {
  uint32_t node_rank = 0;
  std::string name;                  // "" = this machine, or not known before it joins
  uint32_t workers = 0;              // 0 = found out on the node (auto, cpu, gpu)
  uint32_t rank_first = 0;           // counted only while all nodes before it are known
  std::vector<uint32_t> ranks;       // in order of local rank; empty = from rank_first on
  std::string starter;               // embedded | local | ssh | srun | pbsdsh | joins
  std::vector<std::string> command;  // that starts it; empty for embedded
};

// One of several programs.
struct PlanProgram {
  uint32_t rank_first = 0;
  uint32_t workers = 0;
  std::vector<std::string> argv;
  std::string wdir;
  std::vector<std::string> env_set;
};

// Where the workers of a node run.
struct PlannedPlaces {
  struct Worker {
    uint32_t rank = 0;
    bool bound = false;
    std::string cpus;
    uint32_t cores = 0;
    uint32_t sharers = 1;
    std::vector<uint32_t> memory;  // NUMA nodes
    std::vector<uint32_t> gpus;
  };
  std::string text;  // a picture of the node, and a line for each worker
  std::vector<Worker> workers;
};

struct LaunchPlan {
  std::string job_id;  // "" = made at the start
  std::string way;     // StartWayName
  std::vector<PlanNode> nodes;
  uint32_t nodes_min = 1;
  std::vector<std::string> spares;  // names of hosts that wait for a place
  uint32_t world_size = 0;          // 0 = not known before the nodes are asked
  std::vector<std::string> argv;
  std::vector<PlanProgram> programs;  // where there are several: all of them
  std::vector<std::string> wraps;     // "0-3:CMD" of --wrap
  std::string prologue;
  std::string wdir;
  std::vector<std::string> ship;  // as typed
  size_t ship_entries = 0;        // files and folders
  uint64_t ship_bytes = 0;
  OnFailure on_failure = OnFailure::kStop;
  std::string rendezvous;                // where the nodes meet, "" when nothing listens
  std::vector<std::string> env_set;      // "K=V" of -x
  std::vector<std::string> environment;  // "K=V" sent along from here; only the names are shown
  std::vector<std::string> only;         // what single nodes have: "node1: A=1, in /data"
  std::vector<PlannedPlaces> places;     // one of each kind of node, where that is known
  std::vector<std::string> notes;
};

// All that follows from a resolved spec. What only this machine knows is added by look_first.h:
// which host is here, commands, counts that are found out.
LaunchPlan PlanOf(const JobSpec& spec);

// Once more, after a count has become known.
void NumberRanks(LaunchPlan& plan);

// The rank of --explain-env; without a number the first one of this node.
uint32_t RankToExplain(const JobSpec& spec, const LaunchPlan& plan);

// The place of `rank`, and of its node, in a plan whose counts are all known. InvalidArgument:
// there is no such rank.
absl::StatusOr<Assignment> AssignmentOf(const LaunchPlan& plan, uint32_t rank);

std::string PlanText(const LaunchPlan& plan);
// One JSON object and a newline; bytes that are not UTF-8 become U+FFFD.
std::string PlanJson(const LaunchPlan& plan);

}  // namespace muster
