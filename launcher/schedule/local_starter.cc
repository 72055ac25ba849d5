#include "launcher/schedule/local_starter.h"

#include <utility>

#include "launcher/schedule/process_starter.h"

namespace muster {

std::unique_ptr<Starter> MakeLocalStarter(uv_loop_t* loop, std::string agent_path) {
  ProcessStarterOptions process;
  process.program = "muster-agent";
  process.agent_path = agent_path;
  process.command = [path = std::move(agent_path)](const StartTarget&) {
    return std::vector<std::string>{path, "--stdio"};
  };
  return std::make_unique<ProcessStarter>(loop, std::move(process));
}

}  // namespace muster
