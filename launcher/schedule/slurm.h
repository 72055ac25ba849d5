// What Slurm says in the environment of its jobs (CONTRACTS.md section 8), and how agents are
// started in one. Pure functions; thread-safe.
//
// Rules:
//  L1 in an allocation (sbatch, salloc) the job's variables count, in a step (srun) the step's:
//     SLURM_PROCID and its kin exist in a batch script, too, and say nothing. The shell of an
//     interactive allocation may be a step of its own, which is none of ours;
//  L2 slots of a host = its tasks where tasks were asked for, else its GPUs, else its CPUs;
//  L3 srun gets a command line that is whole: no variable of the job changes it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launcher/schedule/hostfile.h"

namespace muster {

// Hosts that a scheduler has given to the job that we are in.
struct GivenHosts {
  std::string job;               // "Slurm job 17", for people
  std::vector<HostEntry> hosts;  // in the scheduler's order; each with its slots
  std::string slots_are;         // "tasks", "GPUs", "CPUs"
  std::string here;              // the one that we are on; "" = none, or unknown
};

// No value: we are in no allocation, or in a worker of a job that launch has started there.
// InvalidArgument: the variables contradict each other, or are not what Slurm writes; the text
// names the variable, and the way out.
absl::StatusOr<std::optional<GivenHosts>> HostsOfSlurm(
    const std::map<std::string, std::string>& environment);

// One agent on each of `hosts`, all in one step. `agent_path`: the same on every node.
std::vector<std::string> SrunCommand(const std::vector<std::string>& hosts,
                                     const std::string& agent_path);

// `own` ("K=V") without what srun would take for options, and what an outer step says of itself.
std::vector<std::string> SrunEnvironment(const std::vector<std::string>& own);

// The hosts of tasks that have ended in failure, by a line of srun's stderr: "srun: error:
// node[1-2]: tasks 0-1: Exited with exit code 1". Empty for any other line.
std::vector<std::string> EndedHosts(absl::string_view line);

}  // namespace muster
