// The words after `launch doctor`, and the job that it starts: a probe on each node, by launch's
// own ways. Pure but for the host file that is read.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/doctor/diagnose.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

struct DoctorCommand {
  bool help = false;
  bool json = false;
  JobSpec spec;  // resolved; the program is the user's
  bool has_program = false;
};

// Whether the first word of a command line is this command.
bool IsDoctorCommand(absl::string_view word);

// `words`: "doctor" and what follows it: options of launch and a program, as for the job itself; of
// the options those count that say where and in which surroundings it runs. Errors as of
// ParseCommandLine and ResolveHosts.
absl::StatusOr<DoctorCommand> ParseDoctorCommand(const std::vector<std::string>& words,
                                                 const Environment& environment,
                                                 const FileReader& read_job_file,
                                                 const FileReader& read_host_file);

std::string DoctorHelp();

// The nodes as the text of a host file.
std::string DoctorHosts(const JobSpec& spec);

// The command line of the job, behind the name of launch. `agent_path`: muster-agent on this
// machine; `host_file`: where DoctorHosts can be read; `request`: the probe's.
std::vector<std::string> ProbeJob(const JobSpec& spec, const std::string& agent_path,
                                  const std::string& host_file, const std::string& request);

// How launch starts the agent of `host`, which is `here` where that is a child of its own.
AgentStart StartOf(const JobSpec& spec, const HostEntry& host, bool here,
                   const std::string& agent_path);

// In front of each line of the probes' output: the node's name in the list, and this.
inline constexpr char kProbePrefixEnd[] = " muster-probe ";

}  // namespace muster
