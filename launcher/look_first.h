// What launch shows instead of running: the plan, one worker's environment. And what the command
// line needs from this machine: its environment as a map, the text of a host file or a job file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"
#include "launcher/plan.h"

namespace muster {

// The plan with what only this machine knows: which node is here, how many workers it runs where
// that is found out, the commands, what is sent along to the nodes that are not here. Errors: a
// count that cannot be had here (gpu, and there is none).
absl::StatusOr<LaunchPlan> PlanFromHere(const JobSpec& spec, const std::string& agent_path);

int ShowPlan(const JobSpec& spec, const std::string& agent_path);
int ShowEnvironment(const JobSpec& spec);

Environment EnvironmentMap(const std::vector<std::string>& entries);
// Our own, as far as it says where a job is to run: at the prompt of `srun --pty bash` that is
// where salloc's shell would be. `ask`: with what only the scheduler's own commands say, in whose
// answer it waits up to 5 s; not worth it where the command says where to run.
Environment PlaceEnvironment(bool ask);
// "-" is standard input. Blocking, without an end where it is a FIFO or terminal that nobody writes
// to, which is said after 2 s. Errors: NotFound (it cannot be opened), Unavailable, InvalidArgument
// (more than 16 MiB, of a job file 1 MiB).
absl::StatusOr<std::string> ReadHostFile(const std::string& path);
absl::StatusOr<std::string> ReadJobFile(const std::string& path);

}  // namespace muster
