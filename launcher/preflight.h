// What launch says of the nodes of a job beside its start, and where it points when that fails.
// Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/job_spec.h"

namespace muster {

// Whether the agents are to look at their nodes: several machines, and not --no-preflight. Of a
// command that is typed on every node, each says what is wrong with its own.
bool PreflightWanted(const JobSpec& spec);

// The command for all that can be said of the nodes of this job, and as a line to type.
std::vector<std::string> DoctorWords(const JobSpec& spec);
std::string DoctorLine(const JobSpec& spec);

// A line for each thing that agents found wrong with their nodes, in the order of `doubts` (the
// node's name, what it found), then what was left out; nothing where all is well.
std::vector<std::string> PreflightLines(
    const JobSpec& spec,
    const std::vector<std::pair<std::string, std::vector<std::string>>>& doubts);

}  // namespace muster
