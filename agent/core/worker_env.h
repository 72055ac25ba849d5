// What one worker finds in its environment beyond what it inherits: each variable with its value
// and reason. Pure; the same input gives the same list.
//
// Invariants (cited by tests):
//  W1 identity (rank, size, address, round) is always ours;
//  W2 a tuning variable the user has set, or asked to be absent, is left alone;
//  W3 all dialects that are set agree;
//  W4 no variable promises a server that does not run (PMI_FD, PMI_PORT, PMIX_SERVER_*), but for
//     JSM_JSRUN_PORT where PMI-1 is offered: Open MPI fails there instead of being a world of one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/core/cpu_plan.h"
#include "agent/core/env_filter.h"
#include "agent/core/facts.h"
#include "proto/base/ids.h"
#include "proto/base/messages.h"
#include "proto/base/work_plan.h"

namespace muster {

struct WorkerEnvInput {
  const WorkPlan& plan;
  const Assignment& assignment;
  const NodeFacts& facts;
  bool store_is_agent = false;
  std::string error_file;  // TORCHELASTIC_ERROR_FILE; "" = none
  LocalRank local;
  std::string torch_version;     // ProgramFacts: torch below 2.2 knows older names; "" = unknown
  MpiMode mpi = MpiMode::kNone;  // as it is served; never kAuto
  const WorkerShare* share = nullptr;  // of the node's plan; null = none was made
  const Topology* topology = nullptr;  // that the plan is of
  // MpiMode::kPmix: "NAME=VALUE" of the server that runs for this worker, and the folder for files
  // of its MPI; null and "" = not known yet.
  const std::vector<std::string>* pmix = nullptr;
  std::string mpi_folder = "";
  bool pmi1_offered = false;  // OffersPmi1 (facts.h); then `mpi` is kNone
};

// In a fixed order.
std::vector<EnvVar> WorkerVariables(const WorkerEnvInput& input, const EnvBase& base);

// --virtual-local-rank: InvalidArgument where the list of GPUs that the node's workers inherit is
// too short for this one (torchrun refuses that, too).
absl::Status CheckOwnGpu(const WorkPlan& plan, LocalRank local, const EnvBase& base);

// One line for the user where a variable that workers inherit ties the threads of each of them to
// the same CPUs; "" = nothing to say. `share_cpus`: several may run on the same ones.
std::string PinNotice(const EnvBase& base, uint32_t workers, bool share_cpus);

// Names that are ours to set only where the user has not (W2).
const std::vector<std::string>& TuningNames();

}  // namespace muster
