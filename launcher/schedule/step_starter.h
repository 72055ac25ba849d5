// Agents that a scheduler starts, many by one command (srun) or each by its own (pbsdsh). They call
// us over TCP (proto/wire/dial.h). Loop thread only.
//
// What such a command says on stderr belongs to all of its nodes: it is shown as the command's own.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "launcher/schedule/child_process.h"
#include "launcher/schedule/starter.h"
#include "launcher/schedule/step_end.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/dial.h"

namespace muster {

// Where agents call.
struct StepDoor {
  UniqueFd socket;                   // listens
  std::vector<std::string> targets;  // "ADDRESS:PORT" of this machine, the best first
};

struct StepOptions {
  std::string program;  // "srun", for sentences
  // Which of `hosts` one run of `command` starts together.
  std::function<std::vector<std::vector<std::string>>(const std::vector<std::string>& hosts)> steps;
  // That starts one agent on each host (muster-agent --dial); our ticket comes on stdin.
  std::function<std::vector<std::string>(const std::vector<std::string>& hosts)> command;
  // In its place: that starts one agent, and has in its words what the ticket says.
  std::function<std::vector<std::string>(const std::string& host, const DialTicket& ticket)>
      command_of_one;
  // Optional: before each command, so that its agents find what they need. Its error is that of
  // their nodes.
  std::function<absl::Status()> prepare;
  // Of a line that the command says. Hosts: it goes on while others live. None: it ends itself.
  std::function<StepEnd(absl::string_view line)> end_of;
  // Whether an agent that is connected may live on where its command was ended: then its
  // connection tells.
  bool agents_outlive = false;
  std::function<void()> on_all_called;    // optional: until the next `prepare` no agent is awaited
  std::vector<std::string> environment;   // of the command, "K=V"; empty = ours
  ChildLeads leads = ChildLeads::kGroup;  // the command
  std::string job_id;
  std::string secret;  // "" = --insecure
  std::function<absl::StatusOr<StepDoor>()> listen;
  // Once, when every agent has said that it cannot connect to us; they go on trying. May be null.
  std::function<void(const std::string& why)> on_unreachable;
  // What may keep a node's call from us, for the sentence about one that is late; "" = nothing.
  std::string late_hint =
      "can the node connect to this one? --port-range, --iface and a firewall decide";
  absl::Duration answer_timeout = absl::Seconds(60);  // from the command's start to a node's call
};

// `loop` outlives the starter. StartTarget::host is the name by which the scheduler knows the node.
std::unique_ptr<Starter> MakeStepStarter(uv_loop_t* loop, StepOptions options);

}  // namespace muster
