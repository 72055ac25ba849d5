// What the user's signals mean for the job: INT, TERM, HUP, QUIT stop it (a second INT at once:
// SignalFold), USR1 and USR2 are passed on (or stop it, if the user says so), TSTP and CONT pause
// and resume it. Loop thread only.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/jobs/keeper_link.h"
#include "launcher/signal_fold.h"
#include "launcher/stop_cause.h"
#include "proto/base/ids.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class UserSignals {
 public:
  struct Callbacks {
    std::function<void(const StopWish& wish)> on_stop;
    std::function<void(int signo)> on_pass;
    std::function<void()> on_suspend;   // pause the job, then call SuspendSelf()
    std::function<void()> on_continue;  // after SuspendSelf() has returned, and on any SIGCONT
    // What `launch chaos` asks of the job, to be answered by TellAnswer; only where the master is
    // in this launch.
    std::function<void(uint64_t ask, const DrillWords& drill)> on_drill;
    std::function<void(uint64_t ask)> on_restart;  // `launch restart`; answered likewise
    std::string master_elsewhere;                  // where it is, if not in this launch
  };
  // After SIGTSTP every node hears that it is paused before this process stops, too.
  static constexpr absl::Duration kPauseSpreads = absl::Milliseconds(300);

  // `also_stop`: of USR1 and USR2 those that stop the job. `keeper_fd`: where `launch stop`,
  // `restart` and `chaos` of a detached job come from; -1 = there is none.
  UserSignals(uv_loop_t* loop, Callbacks callbacks, std::vector<int> also_stop, int keeper_fd);

  // What the scheduler has sent to an agent counts as if it had come here, once for all of them.
  void Heard(int signo, NodeId agent);

  // Whether one of them, or `launch stop`, has stopped the job.
  bool stop_asked() const { return stop_asked_; }

  // Whether a terminal controls us: else SIGTSTP is not somebody's Ctrl-Z (scontrol suspend).
  static bool HaveTerminal();

  // Stops this process until SIGCONT.
  static void SuspendSelf();

 private:
  void On(int signo);
  void Obey(int signo);
  void Stop(const StopWish& wish);
  void OnKeeper();
  void OnDrill(const std::string& text);

  const Callbacks callbacks_;
  const std::vector<int> also_stop_;
  std::vector<UvSignal> signals_;
  SignalFold fold_;
  bool interrupted_ = false;
  bool stop_asked_ = false;
  const int keeper_fd_;
  std::optional<UvPoll> keeper_;
};

}  // namespace muster
