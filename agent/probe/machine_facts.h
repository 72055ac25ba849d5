// What the probe reads of its machine from files and system calls. Blocking, but never on other
// machines; only name_facts and program_probe ask those, or run something.
#pragma once

#include <string>

#include "agent/probe/probe_lines.h"

namespace muster {

// `root`: in front of /proc and /sys; tests only.
void ReadNetworkFacts(const ProbeRequest& request, const std::string& root, ProbeFacts& facts);
void ReadLimitFacts(const std::string& root, ProbeFacts& facts);
void ReadCpuFacts(const std::string& root, ProbeFacts& facts);
// That it is there, that one may write to it, and its room.
DiskFacts ReadDiskFacts(const std::string& path);

// What a cgroup still allows: `limit` ("max" or nothing = kUnlimited) less `used`.
uint64_t LeftOf(const std::string& limit, const std::string& used);

}  // namespace muster
