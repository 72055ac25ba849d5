// What launch shows instead of running: the plan, one worker's environment. And what the command
// line needs from this machine: its environment as a map, the text of a host file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

int ShowPlan(const JobSpec& spec, const std::string& agent_path);
int ShowEnvironment(const JobSpec& spec);

Environment EnvironmentMap(const std::vector<std::string>& entries);
absl::StatusOr<std::string> ReadHostFile(const std::string& path);

}  // namespace muster
