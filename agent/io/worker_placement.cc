#include "agent/io/worker_placement.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/core/cpu_claims.h"
#include "agent/core/worker_env.h"
#include "agent/io/node_facts.h"
#include "agent/io/topology_reader.h"
#include "proto/base/log.h"

namespace muster {
namespace {

// What `auto` gives, may fail: the worker runs as well without it.
bool IsAsked(const CpuBinding& binding) {
  return !AsTheyCome(binding) || binding.memory != MemoryBinding::kNone ||
         !binding.cpu_list.empty();
}

}  // namespace

void WarnOfCpus(const NodeFacts& facts, const EnvBase& environment, const CpuBinding& binding,
                uint32_t workers) {
  if (!facts.cpus_notice.empty()) {
    LogWarning(absl::StrCat(facts.hostname, ": ", facts.cpus_notice));
  }
  const bool share = binding.bind_to == BindTo::kNone || workers > facts.cpus.Count();
  if (const std::string notice = PinNotice(environment, workers, share); !notice.empty()) {
    LogWarning(absl::StrCat(facts.hostname, ": ", notice));
  }
}

void CountObjects(const NodeFacts& facts, WorkPlan& plan) {
  if (plan.workers_wanted == WorkersWanted::kObjects) {
    plan.workers = PlacesByObjects(ReadTopology(facts.cpus, std::getenv("CUDA_VISIBLE_DEVICES")),
                                   facts.cpus, plan.binding);
  }
}

absl::Status CheckPlacement(const WorkPlan& plan, const NodeFacts& facts, uint32_t workers) {
  return IsAsked(plan.binding) || plan.binding.gpus_per_worker > 0 ||
                 plan.binding.gpu_mode != GpuMode::kAll
             ? WorkerPlacement(plan, facts).PlaceAll(workers, /*shared=*/false)
             : absl::OkStatus();
}

WorkerPlacement::WorkerPlacement(const WorkPlan& plan, const NodeFacts& facts)
    : hostname_(facts.hostname),
      binding_(plan.binding),
      inherited_(AffinityMask()),
      allowed_(facts.cpus.empty() ? inherited_ : facts.cpus) {}

absl::Status WorkerPlacement::PlaceAll(uint32_t workers, bool shared, CpuClaimSockets* claims) {
  plan_.reset();
  CpuBinding binding = binding_;
  if (shared && AsTheyCome(binding)) {
    binding.bind_to = BindTo::kNone;
  }
  // One that runs as it comes still keeps to the CPUs that are its node's workers'.
  if (allowed_ == inherited_ && !WantsPlan(binding, workers)) {
    return absl::OkStatus();
  }
  if (!topology_.has_value()) {
    topology_ = ReadTopology(allowed_, std::getenv("CUDA_VISIBLE_DEVICES"));
  }
  absl::StatusOr<CpuPlan> plan;
  if (claims != nullptr && WantsOwnCpus(binding)) {
    claims->Choose([&](const CpuSet& taken) {
      plan = PlanBeside(*topology_, allowed_, taken, workers, binding);
      if (!plan.ok()) {
        return CpuSet();
      }
      if (const std::string notice = SharedNotice(*plan, taken); !notice.empty()) {
        LogWarning(absl::StrCat(hostname_, ": ", notice));
      }
      return CpusOf(*plan);
    });
  } else {
    plan = PlanCpus(*topology_, allowed_, workers, binding);
  }
  if (!plan.ok()) {
    return plan.status();
  }
  plan_ = *std::move(plan);
  return absl::OkStatus();
}

SpawnBinding WorkerPlacement::BindingOf(LocalRank local) const {
  SpawnBinding out;
  const WorkerShare* share = ShareOf(local);
  if (share == nullptr) {
    return out;
  }
  out.must = IsAsked(binding_);
  if (!(share->cpus == inherited_)) {
    out.cpus = share->cpus;
  }
  out.memory = binding_.memory;
  for (const uint32_t node : share->memory) {
    out.memory_nodes.Add(node);
  }
  return out;
}

}  // namespace muster
