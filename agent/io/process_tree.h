// Ends everything that descends from this process. Needs PR_SET_CHILD_SUBREAPER on the caller, so
// that a double-forked or setsid'ed descendant of a worker is still found below us. Single thread;
// blocks, bounded.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/core/thread_tally.h"

namespace muster {

// All processes below this one, by the kernel's lists of children; parents before children.
std::vector<pid_t> Descendants();

// Where a process stands among others.
struct ProcessPlace {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  bool ended = false;      // and not reaped yet: it holds its group's number, and does nothing
  absl::Time started;      // on the clock of BootNow, in steps of 10 ms
  bool is_setsid = false;  // setsid(1), which waits for a program in a session of its own
};

// All processes below this one, likewise. With `others_jobs` false, none that is below a launch or
// an agent of ours in turn: that passes on what it gets, as its user wants it.
std::vector<ProcessPlace> PlacesBelow(bool others_jobs);

// All processes below `root`, likewise; parents before children.
std::vector<pid_t> ProcessesBelow(pid_t root);

// Those that `parent` started itself, and that are still its children.
std::vector<pid_t> ProcessesStartedBy(pid_t parent);

// Of its first thread, also when the process has ended and is not reaped yet. Zero where the kernel
// does not say.
ThreadTimes ReadThreadTimes(pid_t pid);
// Of all threads of a process, added to `out`. False: that has `threads_max`, and some are not in.
bool ReadThreadTimes(pid_t pid, size_t threads_max, std::map<int32_t, ThreadTimes>& out);

// Whether a debugger has this process.
bool IsTraced(pid_t pid);

// Whether it ignores this signal. False where it has ended.
bool Ignores(pid_t pid, int signo);

// Whether all processes below this one that are of these groups stand still, or have ended.
bool StandStill(const std::set<pid_t>& groups);

// SIGSTOPs all processes below this one that do not stand still, and adds them to `stopped`.
// Parents first: who waits for a child does not hear that it has stopped, if it goes on first. One
// that is being made right now is found by the next call.
void StopDescendants(std::set<pid_t>& stopped);
// SIGCONTs those, children first.
void ContinueDescendants(const std::set<pid_t>& stopped);

// SIGKILL takes effect at once, but in the kernel.
inline constexpr absl::Duration kKillWithin = absl::Seconds(10);

struct KillResult {
  std::vector<pid_t>
      survivors;  // not ended within the time: in the kernel (D state), or not ours to kill
};

// SIGKILLs all descendants again and again until none is left or `within` has passed; reaps what
// becomes a child of the caller. `reaped` hears of every reaped process (pid, wait status, peak
// memory in bytes).
KillResult KillDescendants(absl::Duration within,
                           const std::function<void(pid_t, int, uint64_t)>& reaped);

// The same for those children of the caller that `mine` says, and everything below them.
KillResult KillTrees(const std::function<bool(pid_t)>& mine, absl::Duration within,
                     const std::function<void(pid_t, int, uint64_t)>& reaped);

// Whether the process had all these entries ("NAME=value") in its environment when it began, and
// is not hidden from us. A child of it that has not called exec has them, too.
bool HasInEnvironment(pid_t pid, const std::vector<std::string>& entries);

}  // namespace muster
