// What the PMIx server of a node has to know of a round: who is where.
// Pure.
//
// Invariants (cited by tests):
//  X1 the servers of all nodes place every rank alike;
//  X2 a node's own name is the one that its workers read from gethostname(), and no other node has
//     it, also where all nodes are on one machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/messages.h"
#include "proto/base/work_plan.h"

namespace muster {

struct PmixWorld {
  std::string name;                          // of the namespace: no other round has it
  std::string folder;                        // for the server's files
  uint32_t node = 0;                         // this one
  std::vector<std::string> hosts;            // by node
  std::vector<std::vector<uint32_t>> ranks;  // by node, by local rank
  std::vector<uint32_t> apps;                // by rank: which of the job's programs

  uint32_t size() const { return static_cast<uint32_t>(apps.size()); }
  // Of a rank of this node; nullopt: it is on another, or there is none.
  std::optional<LocalRank> LocalOf(uint32_t rank) const;
  // Of a rank of another node; nullopt: it is on this one, or there is none.
  std::optional<uint32_t> OtherNodeOf(uint32_t rank) const;
  bool operator==(const PmixWorld&) const = default;
};

// `hostname`: of this node, as gethostname() has it.
PmixWorld PmixWorldOf(const WorkPlan& plan, const Assignment& assignment,
                      const std::string& hostname, std::string folder);

// As PMIx_generate_regex and PMIx_generate_ppn take them: "a,b" and "0,1;2,3".
std::string PmixNodeMap(const PmixWorld& world);
std::string PmixProcMap(const PmixWorld& world);
// The ranks of this node: "2,3".
std::string PmixLocalPeers(const PmixWorld& world);

}  // namespace muster
