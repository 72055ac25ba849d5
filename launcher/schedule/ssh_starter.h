// Agents over the user's own ssh: its configuration, keys and agent are used as they are.
#pragma once

#include <uv.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "launcher/schedule/hostfile.h"
#include "launcher/schedule/start_retry.h"
#include "launcher/schedule/starter.h"
#include "proto/base/limits.h"

namespace muster {

struct SshOptions {
  std::vector<std::string> ssh = {"ssh"};  // --ssh: program and options in front of ours
  std::string agent_path;  // muster-agent of this launch: tried on the node under the same path,
                           // else pushed
  absl::Duration connect_timeout = kSshConnectTimeout;
  absl::Duration answer_timeout =
      absl::Seconds(60);  // from the program's start to the agent's line
  StartRetries retries = {.tries = 3, .if_dropped = 8, .first_wait = absl::Milliseconds(500)};
};

// `loop` outlives the starter.
std::unique_ptr<Starter> MakeSshStarter(uv_loop_t* loop, SshOptions options);

// What ssh understands; a port of its own needs the URI form.
std::string SshTarget(const HostEntry& host);

// "ssh -p 2222 node1 true": the login that a person can try. `target` is what SshTarget says.
std::string SshByHand(const std::vector<std::string>& ssh, const std::string& target);

// The command line of a start, for --plan. No secret is in it.
std::vector<std::string> SshCommand(const SshOptions& options, const std::string& host);

}  // namespace muster
