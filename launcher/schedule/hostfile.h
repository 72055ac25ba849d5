// Hosts as users write them: on the command line and in host files of the launchers people come
// from. Pure functions over text; thread-safe.
//
// A host file line is one of (blank lines and text after '#' are ignored; '=' may have blanks
// around it):
//   host                              any; PBS repeats the line once per slot
//   host slots=N [max_slots=M]        Open MPI, DeepSpeed, Horovod
//   host:N [binding=B] [user=U]       Hydra
//   host N [queue processors]         SGE's PE_HOSTFILE
//   node[01-16],gpu[1-2]              Slurm expressions; a count after it holds for each of its
//   hosts user@host ...                     with any of them; user=U and port=P too
// Counts: a host without one has 1 slot. But where a file gives slots= on some line, it is Open
// MPI's, and a line without means "as many as the node has CPUs" (HostEntry::by_cpus). The same
// host again, in upper or lower case, adds its slots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct HostEntry {
  std::string name;   // as written: a name, an IPv4 address, an IPv6 address without brackets
  std::string user;   // "" = what ssh decides
  uint16_t port = 0;  // of sshd; 0 = what ssh decides
  uint32_t slots = 1;
  uint32_t slots_max = 0;  // not to be passed with --oversubscribe, either; 0 = no such limit
  bool slots_given = false;
  bool by_cpus = false;  // no count although the file has slots= on other lines
  bool operator==(const HostEntry&) const = default;
};

// "a:4,user@b,[::1]:2,node[0-3]:8". The same host again adds its slots.
absl::StatusOr<std::vector<HostEntry>> ParseHostList(absl::string_view text);

// The text of a host file; `name` is its path, for "hosts.txt:3: ...".
absl::StatusOr<std::vector<HostEntry>> ParseHostFile(absl::string_view text,
                                                     absl::string_view name);

// "a:4,node[0-3]" for people: names compressed, counts where they were given.
std::string DescribeHosts(const std::vector<HostEntry>& hosts);

}  // namespace muster
