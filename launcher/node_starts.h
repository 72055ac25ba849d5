// Starts the agents of a job's nodes, and once more those that the master asks for: over ssh, by
// the scheduler, or as children. Files that are shipped reach each before its connection carries
// gRPC. Loop thread only.
#pragma once

#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/job_secret.h"
#include "launcher/job_spec.h"
#include "launcher/schedule/starter.h"
#include "launcher/ship/shipper.h"
#include "launcher/start_failures.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/service/master_server.h"

namespace muster {

struct NodeStartsOptions {
  std::string agent_path;
  std::vector<WorkerLimit> own_limits;  // of a child, which would have those that we raised
  std::optional<ShipArchive> shipped;
  std::function<void()> on_connected;  // a node's agent is there
  // No node can reach us, where another launch is to serve instead.
  std::function<void(const std::string& why)> on_unreachable;
};

class NodeStarts {
 public:
  // All outlive this. `spec` is resolved.
  NodeStarts(uv_loop_t* loop, const JobSpec& spec, const JobSecret& secret, MasterServer& server,
             NodeStartsOptions options);

  void StartAll();
  void Again(const StartAgain& wanted);
  // Agents end now without being missed.
  void JobOver();
  // Whether what started the agent of this host has told its end while the job ran, or that the
  // scheduler ends them all: then the host itself is there.
  bool HasToldEndOn(absl::string_view host) const;
  // Whether an agent has ended by itself, and so has said why: its node is reached, and runs it.
  bool an_agent_gave_up() const { return an_agent_gave_up_; }
  // Ends every child, then `done`.
  void Stop(std::function<void()> done);

 private:
  Starter::Callbacks StarterCallbacks();
  Shipper::Callbacks ShipCallbacks();
  void OneStopped();
  void Start(size_t index);
  StartTarget TargetOf(size_t index);
  // A batch job's only node, where Slurm gives no step: launch is there itself. Once.
  bool MayStartHere() const;
  void StartHereInstead(size_t index, const std::string& why);
  void Failed(size_t index, uint32_t attempt, const std::string& reason, bool killed = false);
  uint32_t AttemptAt(size_t index) const;

  uv_loop_t* const loop_;
  const JobSpec& spec_;  // the caller's, as are these two
  const JobSecret& secret_;
  MasterServer& server_;
  NodeStartsOptions options_;
  const std::string route_to_;   // another machine of the job; "" = there is none
  const std::string hold_name_;  // of this run of launch: another of the same job id has its own
  std::optional<Shipper> shipper_;
  StartFailures failed_starts_;
  std::unique_ptr<Starter> local_;
  std::unique_ptr<Starter> remote_;
  std::map<size_t, uint32_t> attempts_;                   // of StartAgain; none = the first start
  std::vector<std::unique_ptr<UvTimer>> start_failures_;  // about to be told to the master
  std::set<size_t> told_end_;
  bool cancelled_ = false;  // a step of agents is, by its scheduler
  bool an_agent_gave_up_ = false;
  bool here_instead_ = false;  // remote_ is stopped, or about to be
  bool over_ = false;
  int left_to_stop_ = 0;           // starters
  std::function<void()> stopped_;  // of Stop, once that is 0
};

}  // namespace muster
