// The words a worker is started with: the program's own, behind what --prologue and --wrap put in
// front of them. Pure; thread-safe.
//
// Invariants (cited by tests):
//  A1 the program's words stay as they are, byte for byte, unless --fill or --fill-torchrun
//     is given;
//  A2 wrappers nest in the order they were given, the first one outermost;
//  A3 a prologue runs in the worker's own process, before all wrappers; if it fails or ends, the
//     program is not started, and the worker ends with its status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/work_plan.h"

namespace muster {

struct WorkerNames {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  uint32_t node_rank = 0;
  std::string host;
  uint32_t world_size = 1;
};

// `text` with {rank}, {local_rank}, {node_rank} and {host} replaced, and {rank0}: the rank with
// zeros in front, as wide as the highest one's. A $ in front of them goes, too; other braces stay.
std::string FillNames(absl::string_view text, const WorkerNames& names);

std::vector<std::string> WorkerArgv(const WorkPlan& plan, const WorkerNames& names);

}  // namespace muster
