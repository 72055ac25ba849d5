// The GPUs of a Slurm job: how many each of its nodes has, what a step asks for to have them all,
// and how many each task is to see. Pure; thread-safe. Errors are NotSlurms of slurm_variables.h.
//
// Rules:
//  G1 a step gets every GPU that the job has on its nodes. Where all nodes have as many, one step
//     asks for so many a node. Where they do not, each node has a step of its own, which asks for
//     so many in all: Slurm 22.05 gives a step of several nodes one on each then, or fails.
//  G2 how --gpus=N is spread is what scontrol says (kGpusOfNodes), or follows from those of our own
//     node where there are two; else one of each node is used, and that is said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launcher/schedule/slurm_variables.h"

namespace muster {

// No variable of Slurm's: the shell of launch sets it in the environment that it hands over, where
// AsksForGpus, to what GpusOfNodes finds in scontrol's answer ("3,1(x2)").
inline constexpr char kGpusOfNodes[] = "SLURM_GPUS_OF_NODES/scontrol";

struct SlurmGpus {
  std::vector<uint32_t> each;     // of each host, for workers; empty = none are known
  std::vector<std::string> step;  // of each host: srun's option for its step; "" = none needed
  std::string note;               // for the user; "" = none
};

// "4", "a100:4", "gpu:a100:4", "a100:2,v100:2".
absl::StatusOr<uint32_t> NumberOfGpus(const SlurmVariable& variable);

// Of an allocation of `hosts` hosts, `own` of which (from 0) is the one of SLURM_GPUS_ON_NODE.
absl::StatusOr<SlurmGpus> GpusOfJob(const SlurmVariables& environment, size_t hosts, size_t own);

// Whether only slurmctld knows how the job's GPUs are spread over its nodes.
bool AsksForGpus(const SlurmVariables& environment);

// Of `job`, what `scontrol --details --oneliner show job ID` says, for the nodes of
// SLURM_JOB_NODELIST, as a run-length list; none: it does not say so of each.
std::optional<std::string> GpusOfNodes(absl::string_view job, const SlurmVariables& environment);

// How many GPUs srun would show to each task, and no others, and what says so.
struct GpusOfTask {
  uint32_t each = 1;
  std::string said;  // "SLURM_GPUS_PER_TASK=1"
};
std::optional<GpusOfTask> OwnGpusOfTask(const SlurmVariables& environment);

}  // namespace muster
