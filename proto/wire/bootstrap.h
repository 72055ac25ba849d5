// What a starter hands to a new agent through the channel it started it with (ssh's or a child's
// stdin and stdout).
//
// The agent speaks first: one line, kAgentReadyLine + build name, after whatever a login shell may
// have printed. Then comes one frame: 4 bytes length (big-endian) and a muster.v1.Bootstrap. Then
// comes, from an agent whose program was sent there, kAgentGivesLine; then, where files are
// shipped, the lines of proto/ship/lines.h. Then the channel carries gRPC.
// Blocking; single thread (call before any other thread exists).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/messages.h"
#include "proto/base/ship_terms.h"
#include "proto/base/work_plan.h"
#include "proto/wire/job_terms.h"

namespace muster {

// Line that says "here is an agent"; the build's name follows. wire
inline constexpr absl::string_view kAgentReadyLine = "muster-agent-ready ";
// Line by which the remote shell asks for the program; the machine's name (uname -m) follows, and
// kAgentFetches where that shell can get it from another node. wire
inline constexpr absl::string_view kAgentWantedLine = "muster-agent-wanted ";
inline constexpr absl::string_view kAgentFetches = " fetches";
// Line of an agent whose program was sent there: PORT ADDRESS, at which it gives that to other
// nodes' shells (agent/io/program_giver.h); port 0: it does not. wire
inline constexpr absl::string_view kAgentGivesLine = "muster-agent-gives ";
inline constexpr size_t kAgentGivesBytesMax = 256;
// So long after the last that came: all starts are over by then.
inline constexpr absl::Duration kAgentGivesFor = absl::Minutes(2);
// Folder of a pushed agent program; ReadBootstrap removes it and the variable.
inline constexpr char kAgentTempVariable[] = "MUSTER_AGENT_TEMP";

struct AgentBootstrap {
  std::string secret;  // "" = --insecure
  std::string job_id;
  WorkPlan plan;
  // key, key_is_exact, node_rank, must_agree, hostname ("" = its own); the agent fills in the rest.
  Join join;
  JobTerms terms;
  std::string route_to;  // another host of the job: the route to it tells the agent its own address
  std::string nonce;     // MasterServer::IssueNonce's; "" = the master's Challenge is awaited
  // The agent gets these files before it joins (proto/ship/lines.h); none = nothing is shipped.
  std::optional<ShipTerms> ship;
  // The agent's place in this run of the job (agent/io/node_hold.h).
  std::string hold;
  bool preflight = false;  // the agent looks at its node, and fills in join.doubts
  // Who says it gets the program of an agent that was itself sent; "" = such an agent says no
  // kAgentGivesLine.
  std::string program_token;
};

// The agent's side: says that it is there. Removes the pushed program (kAgentTempVariable) first.
// Errors: DeadlineExceeded, Unavailable (the starter went away).
absl::Status AnnounceAgent(int fd_out, absl::Time deadline);
// Whether this program was sent here for this run of it (before AnnounceAgent).
bool IsPushedAgent();
// kAgentGivesLine of a port; 0 = none. Errors as of AnnounceAgent.
absl::Status AnnounceGiving(int fd_out, uint16_t port, absl::string_view address,
                            absl::Time deadline);
// The starter's side: `line` is that line; none = no port, or an address that may mean something to
// a shell.
struct ProgramGiverAddress {
  std::string address;  // of an IPv4 or IPv6 literal's characters
  uint16_t port = 0;
};
std::optional<ProgramGiverAddress> ParseGiving(absl::string_view line);
// Waits for the frame that answers. Reads not one byte too many. Errors: DeadlineExceeded,
// Unavailable (the starter went away), InvalidArgument (not ours, too large).
absl::StatusOr<AgentBootstrap> ReadBootstrap(int fd_in, absl::Time deadline);

// The frame (length and message) for the starter's side.
absl::StatusOr<std::string> BootstrapFrame(const AgentBootstrap& bootstrap);

}  // namespace muster
