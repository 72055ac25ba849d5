// How a rank waits for another one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace muster {

// Whether what we wait for can run while we are awake. kOwn: yes, as far as we know; kShared: it
// seems to wait for the core that we are on, maybe in another of the scheduler's groups, which
// yields do not serve; kMaybe: if it is on this machine.
enum class OurCore : uint8_t { kOwn, kMaybe, kShared };

// For what comes over the connection `fd`, by what came last: on which core it was taken in (its
// sender's, where that is on this machine), and whether a network adapter had brought it (one that
// a bridge hides from us, as containers' do, is not seen: then a sleep costs a wake-up).
OurCore CoreSharedWith(int fd);

// How long a rank tries before it lets others run, and before it sleeps.
struct WaitPolicy {
  uint32_t spins = 0;  // looks at the line, with a pause between: only where each rank has a core
  std::chrono::microseconds yields{200};  // then gives the core away between looks
  // The workers of the node may use all of the machine, whatever share each has: how many threads
  // run on it says whether they are crowded.
  bool whole_machine = false;

  // Whether a wait of this length goes on asleep.
  bool IsLong(std::chrono::nanoseconds waited, OurCore core = OurCore::kOwn) const;
};
WaitPolicy WaitPolicyFor(uint32_t local_size, uint32_t cpus);

// Whether more threads want to run on this machine than it has cores, by /proc/loadavg; no: it
// cannot be read.
bool IsCrowded();
bool IsCrowded(std::string_view loadavg, long cores);

}  // namespace muster
