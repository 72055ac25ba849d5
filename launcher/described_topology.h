// The machine that a user describes in place of this one, for --plan: by HWLOC_XMLFILE (what lstopo
// writes) or HWLOC_SYNTHETIC ("pack:2 numa:4 core:8 pu:2"), the variables that hwloc has for that.
// The library is loaded only where one of them is set.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "agent/core/topology.h"

namespace muster {

struct DescribedTopology {
  std::string source;  // "HWLOC_XMLFILE=node.xml"
  Topology topology;
  CpuSet allowed;  // by the description
};

// nullopt: neither is set. Errors, with variable, value and the next step: FailedPrecondition (no
// hwloc here), InvalidArgument (it cannot be read). Call with one thread.
absl::StatusOr<std::optional<DescribedTopology>> ReadDescribedTopology();

}  // namespace muster
