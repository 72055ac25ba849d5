// What Slurm says in the environment of its jobs, and how agents are
// started in one. Pure functions; thread-safe.
//
// Rules:
//  L1 in an allocation (sbatch, salloc) the job's variables count, in a step (srun) the step's:
//     SLURM_PROCID and its kin exist in a batch script, too, and say nothing. The shell of an
//     interactive allocation may be a step of its own, which is none of ours, and one that a user
//     has made with srun --pty is no other: of its tasks, only the first has the terminal;
//     A heterogeneous job is all of its components, each with its counts, one behind the other;
//  L2 slots of a host = its tasks where tasks were asked for, else its GPUs, else its CPUs;
//  L3 srun gets a command line that is whole: no variable of the job changes it;
//  L4 in a step of one task a node each task is a node of the job, and all of them know the same:
//     the first node of the step serves, at port low + (37 * job id + step id) mod ports, of
//     --port-range or of 20000 to 28999. So jobs that follow each other, and the first 37 steps of
//     each, have ports of their own; the range is below those that kernels give away (32768) and
//     those of torch (29400, 29500);
//  L5 in a step of one task on one node, which is the same with one node, workers are counted as
//     there: its GPUs, else its CPUs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launcher/schedule/given_hosts.h"
#include "launcher/schedule/step_end.h"
#include "proto/base/port_range.h"

namespace muster {

// One of the tasks of a step in each of which srun has started launch, one a node (L4).
struct StepTask {
  std::string step;                // "Slurm job 17, step 0", for people
  std::string job_id;              // "slurm-17.0", of no other step
  std::vector<std::string> hosts;  // the first one's task serves
  uint16_t port = 0;               // there
  uint32_t nodes = 2;
  uint32_t node_rank = 0;
  uint32_t workers = 1;     // of this node
  std::string workers_are;  // "GPUs", "CPUs"; "" = Slurm does not say
};

// The step is the shell of salloc, by its number.
bool IsShell(const std::map<std::string, std::string>& environment);

// As the shell of salloc on the nodes of the step has it, if that is `srun --pty bash`. Of a launch
// that was typed at a prompt.
std::map<std::string, std::string> AtThePrompt(std::map<std::string, std::string> environment);

// Both functions have no value where we are in no allocation, or in a worker of a job that launch
// has started there. InvalidArgument: the variables contradict each other, or are not what Slurm
// writes; the text names the variable, and the way out.

// No value either in a step of one task. Several on a node are an error; AlreadyExists: that one,
// in a task that is not the step's first, which says it for all.
absl::StatusOr<std::optional<StepTask>> TaskOfSlurm(
    const std::map<std::string, std::string>& environment, PortRange ports = {});

// For an allocation, or a step of one task in it.
absl::StatusOr<std::optional<GivenHosts>> HostsOfSlurm(
    const std::map<std::string, std::string>& environment);

// srun and its options for one task on each of `hosts`, all of one component, in one step, which
// changes nothing for others and takes nothing from them.
std::vector<std::string> SrunOptions(const GivenHosts& job, const std::vector<std::string>& hosts);

// srun's option for the component of a heterogeneous job that has this host; none elsewhere.
std::optional<std::string> HetGroupOption(const GivenHosts& job, const std::string& host);

// One agent on each of `hosts`. `agent_path`: the same on every node.
std::vector<std::string> SrunCommand(const GivenHosts& job, const std::vector<std::string>& hosts,
                                     const std::string& agent_path);

// By component: srun takes several in one step, but gives stdin to the first of them alone.
std::vector<std::vector<std::string>> StepsFor(const GivenHosts& job,
                                               const std::vector<std::string>& hosts);

// `own` ("K=V") without what srun would take for options, and what an outer step says of itself.
std::vector<std::string> SrunEnvironment(const std::vector<std::string>& own);

// The hosts of tasks that have ended in failure, by a line of srun's stderr: "srun: error:
// node[1-2]: tasks 0-1: Exited with exit code 1", "...: task 0: Killed". `how` is the line.
StepEnd SrunEnd(absl::string_view line);

}  // namespace muster
