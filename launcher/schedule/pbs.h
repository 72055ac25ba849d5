// What PBS (OpenPBS, PBS Pro, Torque) says in the environment of its jobs,
// and how agents are started in one. Pure functions; thread-safe.
//
// Rules:
//  P1 the job's script counts, and an interactive job's shell; tasks of pbsdsh are many, and each
//     would start the whole job;
//  P2 hosts are the names of the node file, in the order in which they first appear;
//  P3 slots of a host = its lines, as mpirun counts them: one a chunk where no mpiprocs was asked
//     for. NCPUS says nothing of other chunks than the first. A Torque that writes each host once
//     says the number in PBS_NUM_PPN;
//  P4 where Slurm's names are there, too, it is a job of Slurm, which has a layer that speaks PBS.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "launcher/schedule/file_reader.h"
#include "launcher/schedule/given_hosts.h"
#include "launcher/schedule/step_end.h"

namespace muster {

// From SIGTERM to SIGKILL are 10 s where the site has not said otherwise (kill_delay); the rest is
// for the way from the first host, which alone is told, to the workers, and for the report.
inline constexpr absl::Duration kPbsGrace = absl::Seconds(8);

// Whether we are in a job of PBS, and not in a worker of a job that launch has started there.
bool InPbs(const std::map<std::string, std::string>& environment);

// No value: we are in none, or in one that names no node file. InvalidArgument: what is there is
// not what PBS writes; the text names the variable, and the way out.
absl::StatusOr<std::optional<GivenHosts>> HostsOfPbs(
    const std::map<std::string, std::string>& environment, const FileReader& read_file);

// Where the job was handed in, which is where a user thinks its script begins: PBS begins it in the
// home directory. "" = this is no batch job, or it is not known.
std::string SubmitFolder(const std::map<std::string, std::string>& environment);

// One agent on `host`. `ticket`: its words (proto/wire/dial.h); there is no stdin.
std::vector<std::string> PbsdshCommand(const std::string& host, const std::string& agent_path,
                                       const std::vector<std::string>& ticket);

// How the task of a pbsdsh has ended, by a line that it says: "pbsdsh: task 0x00000000 exit status
// 7". It says nothing of a task that ends well.
StepEnd TaskEnd(absl::string_view line);

}  // namespace muster
