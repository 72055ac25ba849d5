// What the probe reads of its machine from files and system calls. Blocking, but never on other
// machines; only name_facts and program_probe ask those, or run something.
#pragma once

#include <sys/resource.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/core/facts.h"
#include "agent/probe/probe_lines.h"

namespace muster {

// What an agent can look at while a job starts (QuickDoubts): below 1 ms. `node`: as the other
// nodes are told; `files`: the descriptor limit of workers; `find`: a variable of theirs.
using FindVariable = std::function<const char*(const char* name)>;
ProbeFacts ReadQuickFacts(const NodeFacts& node, const rlimit& files, const FindVariable& find);
// What is wrong with this node, as far as that can be seen at once.
std::vector<std::string> DoubtsOfNode(const NodeFacts& node, const rlimit& files,
                                      const FindVariable& find);

// A name in `request` is asked of the resolver.
void ReadAddressFacts(const ProbeRequest& request, ProbeFacts& facts);
// `root`: in front of /proc and /sys; tests only.
void ReadNetworkFacts(const std::string& root, const FindVariable& find, ProbeFacts& facts);
void ReadLimitFacts(const std::string& root, ProbeFacts& facts);
void ReadCpuFacts(const std::string& root, ProbeFacts& facts);
// That it is there, that one may write to it, and its room.
DiskFacts ReadDiskFacts(const std::string& path);

// The addresses that the text of /etc/hosts has for `name`.
std::vector<std::string> HostsFileAddresses(absl::string_view text, absl::string_view name);

// What a cgroup still allows: `limit` ("max" or nothing = kUnlimited) less `used`.
uint64_t LeftOf(const std::string& limit, const std::string& used);

}  // namespace muster
