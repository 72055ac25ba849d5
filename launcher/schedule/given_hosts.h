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
  // Of a host, as srun wants it: "4", "a100:4"; "" or none = Slurm knows.
  std::map<std::string, std::string> gpus;
  std::map<std::string, uint32_t> het_group;  // of a host, in a heterogeneous job; else empty
};

}  // namespace muster
