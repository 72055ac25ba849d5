// Several nodes that launch starts itself: over ssh, or as children for this machine and
// --standalone. Master and display are in this process; the control stream of each node runs inside
// the channel that started its agent.
#pragma once

#include "launcher/job_spec.h"

namespace muster {

// Blocks until the job has ended; the exit code of launch. `agent_path`: muster-agent beside this
// program.
int RunHosts(JobSpec spec, const std::string& agent_path);

// Whether `host` means this machine, so that no ssh is needed: localhost, its own name or one of
// its addresses.
bool IsThisMachine(const std::string& host);
// The same for any name: it resolves to addresses of this machine alone. Blocks as long as the
// resolver does.
bool ResolvesHere(const std::string& host);

// Whether the node of `host` is a child of ours. Another user, or an sshd at another port (a
// container's), is reached by ssh also where the name is this machine's.
bool StartsHere(const JobSpec& spec, const HostEntry& host);

}  // namespace muster
