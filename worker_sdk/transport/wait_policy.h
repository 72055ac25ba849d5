// How a rank waits for another one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace muster {

// How long a rank tries before it lets others run, and before it sleeps.
struct WaitPolicy {
  uint32_t spins = 0;  // looks at the line, with a pause between: only where each rank has a core
  std::chrono::microseconds yields{200};  // then gives the core away between looks
  // The workers of the node may use all of the machine, whatever share each has: how many threads
  // run on it says whether they are crowded.
  bool whole_machine = false;

  // Whether a wait of this length goes on asleep. `shares_core`: seemingly with the awaited one.
  bool IsLong(std::chrono::nanoseconds waited, bool shares_core = false) const;
};
WaitPolicy WaitPolicyFor(uint32_t local_size, uint32_t cpus);

// Whether more threads want to run on this machine than it has cores, by /proc/loadavg; no: it
// cannot be read.
bool IsCrowded();
bool IsCrowded(std::string_view loadavg, long cores);

}  // namespace muster
