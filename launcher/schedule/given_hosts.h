// What a scheduler has given to the job that we are in. Values only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/schedule/hostfile.h"

namespace muster {

enum class Scheduler : uint8_t { kSlurm, kPbs };

// What starts agents under it.
constexpr const char* StepProgram(Scheduler scheduler) {
  return scheduler == Scheduler::kPbs ? "pbsdsh" : "srun";
}

struct GivenHosts {
  Scheduler scheduler = Scheduler::kSlurm;
  std::string job;               // "Slurm job 17", of an array "Slurm job 12_3", for people
  std::vector<HostEntry> hosts;  // in the scheduler's order; each with its slots
  std::string slots_are;         // "tasks", "GPUs", "CPUs"
  std::string here;              // the one that we are on; "" = none, or unknown
  std::string note;              // for the user, behind the job's name; "" = none
  // Of a host, srun's option for its GPUs: "--gpus-per-node=a100:4"; "--gpus=3" where the host has
  // a step of its own; "" or none = Slurm knows.
  std::map<std::string, std::string> gpus;
  // How many of them the scheduler's own start would show to each task, and no others, and what
  // says so ("SLURM_GPUS_PER_TASK=1"); 0 = all of the node.
  uint32_t gpus_of_task = 0;
  std::string gpus_of_task_said;
  std::string distribution;  // "SLURM_DISTRIBUTION=cyclic"; "" = node by node, as ours
  std::map<std::string, uint32_t> het_group;  // of a host, in a heterogeneous job; else empty
};

}  // namespace muster
