#include "worker_sdk/transport/wait_policy.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>

namespace muster {
namespace {

// Most waits between ranks that all run are shorter; asking the kernel takes 2 us.
constexpr std::chrono::microseconds kBeforeWeAsk{20};
// With many cores it takes longer.
constexpr std::chrono::milliseconds kAskEvery{1};

long Cores() {
  static const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores;
}

bool LooksCrowded() {
  static const int load = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  char text[64];
  const ssize_t size = pread(load, text, sizeof(text), 0);
  return size > 0 && IsCrowded({text, static_cast<size_t>(size)}, Cores());
}

}  // namespace

WaitPolicy WaitPolicyFor(uint32_t local_size, uint32_t cpus) {
  WaitPolicy policy;
  // A wake-up across cores costs 70 us on virtual machines; a spin of that length costs no more.
  policy.spins = local_size <= cpus ? 200 : 0;
  policy.whole_machine = cpus >= Cores();
  return policy;
}

// The scheduler knows groups (of a session, of a container), and sched_yield() gives the core only
// to others of one's own. Where each rank has a core by its node's count, but other programs are
// there, too, the awaited rank may stand behind one that waits: once that one sleeps, it goes on.
// So it may where it is in another container of this machine, though other cores are idle: what one
// wakes on its own core stays there. More ranks than cores are one group, and yields serve them.
bool WaitPolicy::IsLong(std::chrono::nanoseconds waited, OurCore core) const {
  if (waited >= yields) {
    return true;
  }
  const bool soon = waited >= kBeforeWeAsk;
  const bool asks = whole_machine && (soon || core != OurCore::kOwn);
  return spins > 0 && ((soon && core == OurCore::kShared) || (asks && IsCrowded()));
}

OurCore CoreSharedWith(int fd) {
  int core = -1;
  socklen_t size = sizeof(core);
  if (getsockopt(fd, SOL_SOCKET, SO_INCOMING_CPU, &core, &size) != 0 || core != sched_getcpu()) {
    return OurCore::kOwn;
  }
  unsigned adapter = 0;  // adapters' queues have numbers
  size = sizeof(adapter);
  return getsockopt(fd, SOL_SOCKET, SO_INCOMING_NAPI_ID, &adapter, &size) == 0 && adapter == 0
             ? OurCore::kShared
             : OurCore::kMaybe;
}

bool IsCrowded() {
  // The last answer, and when it was had.
  static std::atomic<int64_t> asked{INT64_MIN};
  static std::atomic<bool> crowded{false};
  const int64_t now = std::chrono::steady_clock::now().time_since_epoch() / kAskEvery;
  if (asked.exchange(now, std::memory_order_relaxed) != now) {
    crowded.store(LooksCrowded(), std::memory_order_relaxed);
  }
  return crowded.load(std::memory_order_relaxed);
}

// "0.20 0.18 0.12 <running now>/<threads> <last process>"
bool IsCrowded(std::string_view loadavg, long cores) {
  const std::string_view before = loadavg.substr(0, loadavg.find('/'));
  const std::string_view number = before.substr(before.rfind(' ') + 1);  // none: npos + 1 is 0
  long running = 0;
  std::from_chars(number.data(), number.data() + number.size(), running);
  // On a large machine some daemon or other always runs.
  return running > cores + cores / 4;
}

}  // namespace muster
