// The ports that we may choose ourselves (--port-range). Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace muster {

struct PortRange {
  uint16_t low = 0;  // 0 = no range: any port that the kernel gives
  uint16_t high = 0;
  bool Any() const { return low == 0; }
  std::string Text() const;  // "20000-20100"
  auto operator<=>(const PortRange&) const = default;
};

// Each of them once, in the order in which they are to be tried: from a random one on, so that jobs
// that start together seldom want the same.
std::vector<uint16_t> PortsToTry(PortRange range, uint64_t random);
std::vector<uint16_t> PortsToTry(PortRange range);

// ResourceExhausted: none of them is free.
absl::Status NoPortLeft(PortRange range);

}  // namespace muster
