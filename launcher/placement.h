// Which worker runs on which host of a list: of --hosts or --hostfile, of the lists that programs
// have for themselves, by a --rankfile. The only outside contact is `read_file`.
//
// Rules:
//  P1 hosts fill in order (allocation.h); several programs that share one list fill it as one;
//  P2 programs with lists of their own each fill theirs; a rank file places each rank by itself.
//     Then the nodes come in the order of their lowest rank, so that rank 0 is on the first one;
//  P3 a node whose ranks do not follow the node before it has them in NodeWorkers::ranks,
//  ascending.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

// "-n 4", "-n 2 : -n 3 (5 in all)".
std::string TotalSaid(const JobSpec& spec);

// Whether launch is told the hosts, and starts agents on them.
bool NamesHosts(const JobSpec& spec);

// Fills hosts, nodes, nodes_min and nodes_max of a spec that NamesHosts.
absl::Status PlaceOnHosts(JobSpec& spec, const FileReader& read_file);

// "--a 1 and --b 2 contradict: why".
absl::Status Contradiction(const JobSpec& spec, OptionId a, OptionId b, absl::string_view why);

}  // namespace muster
