// Places the workers of a node: reads what it is made of when that is first needed, and keeps it.
// Loop thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "agent/core/cpu_plan.h"
#include "agent/core/env_filter.h"
#include "agent/core/facts.h"
#include "agent/io/cpu_claim_sockets.h"
#include "agent/io/spawn.h"
#include "proto/base/messages.h"
#include "proto/base/work_plan.h"

namespace muster {

// Says what is odd about the CPUs that workers may use, or about their use of them.
void WarnOfCpus(const NodeFacts& facts, const EnvBase& environment, const CpuBinding& binding,
                uint32_t workers);

// WorkersWanted::kObjects: puts the number that this node has places for into `plan`.
void CountObjects(const NodeFacts& facts, WorkPlan& plan);

// What was asked for can be had, as far as that can be seen before the start.
absl::Status CheckPlacement(const WorkPlan& plan, const NodeFacts& facts, uint32_t workers);

class WorkerPlacement {
 public:
  WorkerPlacement(const WorkPlan& plan, const NodeFacts& facts);

  // For so many workers. `shared`: other nodes of the job are this machine, too, and only what the
  // user asked for holds. `claims`: cores of their own are chosen among those that no other job of
  // this user claims, and claimed there; it is said where these are too few. An error says which
  // option cannot be had here.
  absl::Status PlaceAll(uint32_t workers, bool shared, CpuClaimSockets* claims = nullptr);

  // Of the last PlaceAll; null where none was needed.
  const CpuPlan* plan() const { return plan_.has_value() ? &*plan_ : nullptr; }
  const CpuSet& allowed() const { return allowed_; }
  const Topology* topology() const { return topology_.has_value() ? &*topology_ : nullptr; }
  const WorkerShare* ShareOf(LocalRank local) const {
    return plan_.has_value() ? &plan_->workers[local.value] : nullptr;
  }
  SpawnBinding BindingOf(LocalRank local) const;

 private:
  const std::string hostname_;
  const CpuBinding binding_;
  const CpuSet inherited_;  // what a worker has that nobody binds
  const CpuSet allowed_;
  std::optional<Topology> topology_;
  std::optional<CpuPlan> plan_;
};

}  // namespace muster
