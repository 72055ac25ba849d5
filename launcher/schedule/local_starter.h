// Agents as children of this process, on this machine: no ssh for the local host, --standalone
// --nnodes N.
#pragma once

#include <uv.h>

#include <memory>
#include <string>

#include "launcher/schedule/starter.h"

namespace muster {

// `agent_path` --stdio for each target. `loop` outlives the starter.
std::unique_ptr<Starter> MakeLocalStarter(uv_loop_t* loop, std::string agent_path);

}  // namespace muster
