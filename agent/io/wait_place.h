// What processes wait for, as the kernel sees their first threads. Any thread. Of /proc nothing is
// read that looks into a process's memory: one would wait with it while its disk does not answer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace muster {

// One look at several of them, which share a network.
class WaitSight {
 public:
  // For people: "recv: TCP 10.77.0.1:29500", "flock: /data/x.lock", "sleep", "futex (a lock, or
  // another thread)". Of one that waits for its only child, what that waits for. "" where the
  // kernel does not say (a process of another user, or it has just ended).
  std::string Of(pid_t pid);

 private:
  std::string At(pid_t pid, int deep);
  std::string DescriptorOf(pid_t pid, int fd);

  std::optional<std::map<uint64_t, std::string>> peers_;  // once they were asked for
};

}  // namespace muster
