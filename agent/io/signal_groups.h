// The process groups that a signal for the workers is for: those of the workers, and those that
// descend from them (timeout(1), a shell's jobs, setsid), each once; and which of them still save
// what they have after a stop. Single thread, in the shepherd.
//
// Left out are helpers of the agent, and what is below a launch or an agent that a worker has
// started: these pass a signal on by themselves, except for SIGSTOP and SIGCONT, which nobody can
// pass on. Who has made a session of its own, as daemons do, gets what stops or pauses a job, but
// not SIGUSR1 and SIGUSR2 that are only passed on, of which it would die by default; and has no
// time of its own to end. What setsid(1) has started as a worker is no daemon.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <vector>

#include "absl/time/time.h"
#include "agent/io/process_tree.h"

namespace muster {

class SignalGroups {
 public:
  // A worker was started; it leads a group, and with a terminal a session.
  void AddWorker(pid_t worker) { workers_.insert(worker); }
  // A process of the agent's own beside the workers.
  void AddHelper(pid_t helper) { helpers_.insert(helper); }
  // Nothing of the round is left.
  void End();

  // To each group once. `living`: the workers that live, and whether the signal is for their group.
  // `stops`: it is to end them, also SIGUSR1 and SIGUSR2. What is of our session, and was started
  // no later than `reached`, has it by another way. A SIGCONT soon after a SIGSTOP waits, half a
  // second at most, until all stand still.
  void Signal(int signo, bool stops, const std::map<pid_t, bool>& living, absl::Time reached);

  // From now on: until no group of the workers' session that has got another signal than SIGSTOP
  // and SIGCONT has a member that has not ended. Who ignored what stops a job when it came, and
  // what descends from that, saves nothing: a shell has its background processes ignore SIGINT.
  void Await();
  // When to look; InfiniteFuture: nothing is awaited.
  absl::Time next() const { return next_; }
  // True: they have, and are awaited no more.
  bool AwaitedHaveEnded(absl::Time now);

 private:
  void SeeWhoHears(int signo, const std::vector<ProcessPlace>& places);
  void SeeWhatWorkersWrap(const std::vector<ProcessPlace>& places);
  void AwaitStandstill() const;
  bool AnyLives() const;
  std::map<pid_t, bool> Groups(const std::vector<ProcessPlace>& places, bool of_job_only,
                               absl::Time reached) const;
  bool IsOfJob(pid_t session) const;

  // Of the round, also those that have ended; of a worker that is setsid(1), the program, too.
  std::set<pid_t> workers_;
  std::set<pid_t> helpers_;
  std::set<pid_t> told_;     // groups, to stop or to do something
  std::set<pid_t> hear_;     // processes that have got what stops a job
  std::set<pid_t> deaf_;     // ... or have ignored each of these
  std::set<pid_t> stopped_;  // groups, by the last SIGSTOP
  absl::Time stopped_at_ = absl::InfinitePast();
  absl::Time next_ = absl::InfiniteFuture();
  absl::Duration pause_;  // until the look after the next
};

}  // namespace muster
