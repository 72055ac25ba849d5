// From what the user typed to what will run: host files are read, contradictions found, nodes and
// workers counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

// Completes `spec` (see job_spec.h). InvalidArgument for wrong usage (exit 2), with both options
// named where two contradict; NotFound and the like for a host file that cannot be read. The only
// outside contact is `read_file`. `environment`: where a scheduler says what it has given us.
absl::Status ResolveHosts(JobSpec& spec, const FileReader& read_file,
                          const Environment& environment = {});

// Workers of each of nodes_max nodes that have no host list behind them, in order of node rank.
// InvalidArgument: the counts that the user gave disagree; never after ResolveHosts.
absl::StatusOr<std::vector<uint32_t>> WorkersByNode(const JobSpec& spec);

}  // namespace muster
