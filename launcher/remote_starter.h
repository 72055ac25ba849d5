// How agents of other machines are started: over ssh, or as the scheduler does whose job we are in.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/job_secret.h"
#include "launcher/job_spec.h"
#include "launcher/schedule/starter.h"

namespace muster {

// A node of the list that is not this machine; "" = there is none.
std::string OtherMachine(const JobSpec& spec);

// What starts one agent on each of `hosts`, in one step of the Slurm job that we are in. In a step
// of the job's only node the agent sees the GPUs that we do.
std::vector<std::string> AgentsCommand(const JobSpec& spec, const std::vector<std::string>& hosts,
                                       const std::string& agent_path);

// `loop` and `spec` outlive the starter. `on_unreachable`: no node can connect to us, and another
// launch may serve instead (MayServeOnFirstNode); else that is a failure of each node.
std::unique_ptr<Starter> MakeRemoteStarter(
    uv_loop_t* loop, const JobSpec& spec, const JobSecret& secret, const std::string& agent_path,
    std::function<void(const std::string& why)> on_unreachable);

}  // namespace muster
