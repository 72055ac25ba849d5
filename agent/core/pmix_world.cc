#include "agent/core/pmix_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/core/programs.h"

namespace muster {
namespace {

std::vector<std::vector<uint32_t>> RanksByNode(const Assignment& assignment) {
  std::vector<std::vector<uint32_t>> out;
  uint32_t next = 0;
  for (const auto& [workers, nodes] : assignment.layout) {
    for (uint32_t node = 0; node < nodes; ++node) {
      std::vector<uint32_t>& ranks = out.emplace_back();
      for (uint32_t i = 0; i < workers; ++i, ++next) {
        ranks.push_back(assignment.ranks_by_node.empty() ? next : assignment.ranks_by_node[next]);
      }
    }
  }
  return out;
}

// The other nodes' names are only compared, so they need not be those that users know.
std::string NameOf(uint32_t node, const Assignment& assignment, const std::string& hostname) {
  return node == assignment.node_rank.value ? hostname : absl::StrCat("muster-node-", node);
}

}  // namespace

std::optional<LocalRank> PmixWorld::LocalOf(uint32_t rank) const {
  const std::vector<uint32_t>& here = ranks[node];
  const auto found = std::find(here.begin(), here.end(), rank);
  if (found == here.end()) {
    return std::nullopt;
  }
  return LocalRank{static_cast<uint32_t>(found - here.begin())};
}

std::optional<uint32_t> PmixWorld::OtherNodeOf(uint32_t rank) const {
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    if (i != node && std::find(ranks[i].begin(), ranks[i].end(), rank) != ranks[i].end()) {
      return i;
    }
  }
  return std::nullopt;
}

PmixWorld PmixWorldOf(const WorkPlan& plan, const Assignment& assignment,
                      const std::string& hostname, std::string folder) {
  PmixWorld out;
  out.name = absl::StrCat("muster-", plan.job_id.substr(0, 64), "-", assignment.round.epoch, "-",
                          assignment.round.n);
  out.folder = std::move(folder);
  out.node = assignment.node_rank.value;
  out.ranks = RanksByNode(assignment);
  for (uint32_t node = 0; node < out.ranks.size(); ++node) {
    out.hosts.push_back(NameOf(node, assignment, hostname));
  }
  for (uint32_t rank = 0; rank < assignment.world_size; ++rank) {
    out.apps.push_back(static_cast<uint32_t>(ProgramOf(plan, rank)));
  }
  return out;
}

std::string PmixNodeMap(const PmixWorld& world) { return absl::StrJoin(world.hosts, ","); }

std::string PmixProcMap(const PmixWorld& world) {
  return absl::StrJoin(world.ranks, ";", [](std::string* out, const std::vector<uint32_t>& ranks) {
    absl::StrAppend(out, absl::StrJoin(ranks, ","));
  });
}

std::string PmixLocalPeers(const PmixWorld& world) {
  return absl::StrJoin(world.ranks[world.node], ",");
}

}  // namespace muster
