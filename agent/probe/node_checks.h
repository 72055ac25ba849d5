// What is wrong with a node by itself, whatever the others are like. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/probe/probe_lines.h"

namespace muster {

enum class Health : uint8_t { kWell, kSuspect, kBad };

struct Finding {
  Health health = Health::kBad;
  std::string seen;
  std::string fix;
};
using Findings = std::vector<Finding>;

// Nothing where all is well; `name` is the node's, for what there is to do.
Findings OwnNameFindings(const std::string& name, const ProbeFacts& facts);
Findings LimitFindings(const std::string& name, const ProbeFacts& facts);
Findings ListenQueueFindings(const std::string& name, const ProbeFacts& facts);
Findings SharedMemoryFindings(const std::string& name, const ProbeFacts& facts);
Findings DiskFindings(const std::string& name, const ProbeFacts& facts);
Findings CgroupFindings(const std::string& name, const ProbeFacts& facts);
Findings CpuFindings(const std::string& name, const ProbeFacts& facts);

// What can be said of a node within the start of a job, of what ReadQuickFacts has read: "SEEN;
// fix:
// ..." for each that is bad.
std::vector<std::string> QuickDoubts(const std::string& name, const ProbeFacts& facts);

bool IsLoopback(absl::string_view address);
std::string Bytes(uint64_t bytes);  // "1.5 GiB"

}  // namespace muster
