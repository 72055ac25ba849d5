// What `launch --plan` shows: nodes, ranks, who starts them and with which command, without
// starting anything. Values and text only; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "launcher/job_spec.h"

namespace muster {

struct PlanNode {
  uint32_t node_rank = 0;
  std::string name;                  // "" = not known before it joins
  uint32_t workers = 0;              // 0 = found out on the node (auto, cpu, gpu)
  uint32_t rank_first = 0;           // counted only while all nodes before it are known
  std::string starter;               // embedded | local | ssh | joins
  std::vector<std::string> command;  // that starts it; empty for embedded
};

struct LaunchPlan {
  std::string job_id;  // "" = made at the start
  std::string way;     // StartWayName
  std::vector<PlanNode> nodes;
  uint32_t nodes_min = 1;
  uint32_t world_size = 0;  // 0 = not known before the nodes are asked
  std::vector<std::string> argv;
  std::string wdir;
  std::string rendezvous;                // where the nodes meet, "" when nothing listens
  std::vector<std::string> env_set;      // "K=V" of -x
  std::vector<std::string> environment;  // "K=V" sent along from here; only the names are shown
  std::vector<std::string> notes;
};

// All that follows from a resolved spec. Nodes over ssh have no command yet: the starter knows it.
LaunchPlan PlanOf(const JobSpec& spec);

std::string PlanText(const LaunchPlan& plan);
// One JSON object and a newline; bytes that are not UTF-8 become U+FFFD.
std::string PlanJson(const LaunchPlan& plan);

}  // namespace muster
