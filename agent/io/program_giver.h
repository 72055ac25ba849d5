// Gives this agent's own program to the shells of other nodes that have none, where launch has sent
// them here: launch sends it to few nodes (launcher/schedule/copy_routes.h). Such a shell says the
// token, which it has from launch over ssh as it has the program's SHA-256, and a newline; it gets
// the program's bytes and the connection's end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "agent/io/file_giver.h"
#include "proto/base/unique_fd.h"

namespace muster {

// For FileGiverOptions::greet.
std::unique_ptr<Greeting> TokenGreeting(const std::string& token);

// Until nobody has come for so long; then the port is closed. Blocks.
void GiveWhileTheyCome(FileGiverOptions options, absl::Duration idle_max);

// Gives `program` in a process of its own, which ends with the thread that calls this: whatever the
// agent waits for meanwhile, others may wait for the program. Call before there are other threads.
// False: no process can be started. `on_given` as of FileGiverOptions.
bool GiveBeside(UniqueFd listening, UniqueFd program, const std::string& token,
                std::function<void()> on_given = {});

}  // namespace muster
