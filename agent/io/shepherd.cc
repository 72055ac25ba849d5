#include "agent/io/shepherd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/core/answer_watch.h"
#include "agent/core/lease_watch.h"
#include "agent/io/life_pipe.h"
#include "agent/io/process_tree.h"
#include "agent/io/session_ear.h"
#include "agent/io/shepherd_protocol.h"
#include "agent/io/signal_groups.h"
#include "agent/io/spawn.h"
#include "agent/io/spawn_words.h"
#include "agent/io/stray_groups.h"
#include "agent/io/worker_trace.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

constexpr absl::Duration kStopAgain = absl::Milliseconds(20);    // while workers have no lease
constexpr absl::Duration kLookAtHeld = absl::Milliseconds(500);  // whether their debugger has left
constexpr absl::Duration kIoWithin = absl::Seconds(5);  // the I/O process, after the lease's end

class Shepherd {
 public:
  Shepherd(UniqueFd socket, UniqueFd door, std::vector<ProcessLimit> limits, pid_t useless_io)
      : socket_(std::move(socket)), door_(std::move(door)), useless_io_(useless_io) {
    request_.limits = std::move(limits);
    request_.door_fd = door_.get();
  }

  // Until the I/O process is gone.
  void Run() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    signals_.Reset(signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC));
    timer_.Reset(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC));
    null_.Reset(open("/dev/null", O_RDWR | O_CLOEXEC));
    request_.life = life_.Open() ? life_.path() : nullptr;
    // Without one of them an exit or the lease would go unnoticed: our end tells at once.
    orphaned_ = !signals_.valid() || !timer_.valid() || !null_.valid() || !life_.is_open();
    while (!orphaned_) {
      const auto wanted = static_cast<int16_t>(news_.empty() ? POLLIN : POLLIN | POLLOUT);
      pollfd fds[4] = {{socket_.get(), wanted, 0},
                       {signals_.get(), POLLIN, 0},
                       {timer_.get(), POLLIN, 0},
                       {session_.fd(), POLLIN, 0}};
      if (poll(fds, 4, Patience()) < 0 && errno != EINTR) {
        break;
      }
      strays_.Look(BootNow(), workers_);
      if (io_.next() <= BootNow()) {
        ReadOrders();  // what it has said while we did not look
      }
      if (io_.IsSilent(BootNow())) {
        kill(useless_io_, SIGKILL);  // its socket ends with it, and that ends us
      }
      if (let_go_) {
        LetGo();
      }
      LookAtGroups();
      if (fds[1].revents != 0) {
        signalfd_siginfo info;
        while (read(signals_.get(), &info, sizeof(info)) > 0) {
        }
        Reap();
      }
      if (fds[2].revents != 0) {
        LookAtLease();
      }
      if (fds[3].revents != 0) {
        session_.Listen();
      }
      if ((fds[0].revents & POLLOUT) != 0) {
        SendNews();
      }
      if ((fds[0].revents & ~POLLOUT) != 0) {
        ReadOrders();
      }
    }
    KillDescendants(kKillWithin, [](pid_t, int, uint64_t) {});
    RemoveRunDir();
  }

 private:
  // For poll: until something is to be looked at that tells of nothing.
  int Patience() const {
    const absl::Duration held = let_go_ ? kLookAtHeld : absl::InfiniteDuration();
    const absl::Duration left = std::min(
        {strays_.next() - BootNow(), groups_.next() - BootNow(), io_.next() - BootNow(), held});
    return left == absl::InfiniteDuration()
               ? -1
               : static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(left)) + 1);
  }

  void ReadOrders() {
    for (int i = 0; i < 64 && !orphaned_;
         ++i) {  // let exits through between the spawns of a big round
      absl::StatusOr<ShepherdFrame> frame = ReceiveFrame(socket_.get());
      if (!frame.ok()) {
        orphaned_ = !absl::IsUnavailable(frame.status());
        break;
      }
      Obey(*std::move(frame));
    }
    SendNews();
  }

  void Obey(ShepherdFrame frame) {
    io_.Answered();
    switch (static_cast<ShepherdOrder>(frame.type)) {
      case ShepherdOrder::kPrograms:
        return TakePrograms(frame);
      case ShepherdOrder::kSpawn:
        return SpawnWorker(std::move(frame));
      case ShepherdOrder::kSignal:
        return Signal(static_cast<int>(frame.value), frame.extra == kSignalStops);
      case ShepherdOrder::kKill:
        return KillWorker(frame.index);
      case ShepherdOrder::kClearWorker:
        return ClearWorker(frame.index);
      case ShepherdOrder::kAwaitGroups:
        groups_.Await();
        return LookAtGroups();
      case ShepherdOrder::kClear:
        return Clear(ShepherdNews::kCleared);
      case ShepherdOrder::kSetLease:
        return SetLease(frame.value);
      case ShepherdOrder::kRunDir:
        run_dir_ = frame.payload;
        return;
      case ShepherdOrder::kHelper:
        return StartHelper(std::move(frame));
      case ShepherdOrder::kPing:
        return Tell(ShepherdNews::kAlive, -1, 0, 0, "");
    }
  }

  // The memfd holds what UnpackPrograms takes.
  void TakePrograms(const ShepherdFrame& frame) {
    programs_.clear();
    request_.held = (frame.value & kProgramsHeld) != 0;
    request_.no_new_privileges = (frame.value & kProgramsNoNewPrivileges) != 0;
    struct stat facts {};
    if (frame.fds.size() == 1 && fstat(frame.fds[0].get(), &facts) == 0) {
      programs_.resize(static_cast<size_t>(facts.st_size));
      if (pread(frame.fds[0].get(), programs_.data(), programs_.size(), 0) !=
          static_cast<ssize_t>(programs_.size())) {
        programs_.clear();
      }
    }
    UnpackedPrograms unpacked = UnpackPrograms(programs_);
    request_.wdir = unpacked.wdir;
    request_.candidates = std::move(unpacked.candidates);
    request_.argv = std::move(unpacked.argv);
    request_.argv.push_back(nullptr);
    environment_ = std::move(unpacked.environment);
  }

  void SpawnWorker(ShepherdFrame frame) {
    size_t fds = frame.fds.size();
    UniqueFd pmi;
    const bool with_pmi = (frame.extra & kSpawnWithPmi) != 0;
    if (fds < (with_pmi ? 3 : 2) ||
        fds != frame.fd_count) {  // our descriptor limit cuts off the last ones
      return Tell(ShepherdNews::kSpawnFailed, frame.index, EMFILE, 0,
                  "no descriptors left in the shepherd: raise `ulimit -n`");
    }
    if (programs_.empty()) {
      return Tell(ShepherdNews::kSpawnFailed, frame.index, EFBIG, 0,
                  "its program could not be handed to the shepherd process");
    }
    request_.terminal = frame.value == 1;
    request_.pmi_fd = -1;
    request_.pmi_offered = (frame.extra & kSpawnPmiOffered) != 0;
    if (with_pmi) {
      pmi = std::move(frame.fds.back());
      request_.pmi_fd = pmi.get();
      --fds;
    }
    request_.stdin_fd = fds == 3 ? frame.fds[0].get() : null_.get();
    request_.stdout_fd = frame.fds[fds - 2].get();
    request_.stderr_fd = frame.fds[fds - 1].get();
    request_.envp = environment_;
    const std::vector<char*> own = UnpackStrings(frame.payload);
    request_.binding = UnpackBinding(own);
    request_.envp.insert(request_.envp.end(), own.begin() + kBindingWords, own.end());
    request_.envp.push_back(nullptr);
    const SpawnResult result = Spawn(request_);
    if (result.error != 0) {
      return Tell(ShepherdNews::kSpawnFailed, frame.index, result.error, 0,
                  WhyNot(request_, result));
    }
    workers_[result.pid] = frame.index;
    groups_.AddWorker(result.pid);
    strays_.Begin(BootNow());
    traces_[frame.index] = {result.pid, MarksOf(own), BootNow()};
    if (request_.held) {
      held_.insert(result.pid);
    }
    Note(ShepherdNews::kSpawned, frame.index, result.pid, 0, "");
  }

  // Of the agent, not of the user: neither limits nor CPUs nor a debugger's hold are for it.
  void StartHelper(ShepherdFrame frame) {
    const std::vector<char*> words = UnpackStrings(frame.payload);
    uint32_t count = 0;
    if (frame.fds.size() != 1 || words.empty() || !absl::SimpleAtoi(words[0], &count) ||
        count == 0 || count >= words.size()) {
      return Tell(ShepherdNews::kHelperFailed, -1, EMFILE, 0,
                  "no descriptors left in the shepherd: raise `ulimit -n`");
    }
    SpawnRequest request;
    request.argv.assign(words.begin() + 1, words.begin() + 1 + count);
    request.candidates = {request.argv[0]};
    request.argv.push_back(nullptr);
    request.envp.assign(words.begin() + 1 + count, words.end());
    request.envp.push_back(nullptr);
    request.stdin_fd = null_.get();
    request.stdout_fd = request.stderr_fd = STDERR_FILENO;
    request.pmi_fd = frame.fds[0].get();
    request.life = life_.path();
    const SpawnResult result = Spawn(request);
    if (result.error != 0) {
      Tell(ShepherdNews::kHelperFailed, -1, result.error, 0,
           absl::StrCat(result.step, " ", words[1], ": ", std::strerror(result.error)));
    } else {
      groups_.AddHelper(result.pid);
    }
  }

  // A held worker stands still already. The first signal that is neither that nor the program's own
  // lets it go, for it could not take it otherwise; one that a debugger has by then runs as that
  // says, and stands still as the others do.
  void Signal(int signo, bool stops) {
    const bool pauses = signo == SIGSTOP || signo == SIGCONT;
    const absl::Time reached = session_.Reached(signo);
    std::map<pid_t, bool> living;
    for (const auto& [pid, index] : workers_) {
      const bool has_it = traces_[index].started <= reached && SessionEar::IsOfSession(pid);
      living[pid] = !has_it && (let_go_ || held_.count(pid) == 0 || !pauses);
    }
    groups_.Signal(signo, stops, living, reached);
    if (signo == SIGSTOP) {
      let_go_ = false;
    } else if (stops || (signo != SIGUSR1 && signo != SIGUSR2)) {
      LetGo();
    }
  }

  void LookAtGroups() {
    if (groups_.AwaitedHaveEnded(BootNow())) {
      Tell(ShepherdNews::kGroupsEnded, -1, 0, 0, "");
    }
  }

  void KillWorker(int32_t index) {
    for (const auto& [pid, at] : workers_) {
      if (static_cast<int64_t>(at) == index) {
        kill(pid, SIGKILL);
      }
    }
  }

  // One that a debugger has by now goes on when that says so. Where that leaves it standing, as
  // gdb's detach does, nobody else would wake it.
  void LetGo() {
    for (auto pid = held_.begin(); pid != held_.end();) {
      if (IsTraced(*pid)) {
        ++pid;
      } else {
        kill(*pid, SIGCONT);
        pid = held_.erase(pid);
      }
    }
    let_go_ = !held_.empty();
  }

  // Until it is reaped, the kernel still says how long the first thread of a process has waited.
  void Reap() {
    siginfo_t next{};
    while (waitid(P_ALL, 0, &next, WEXITED | WNOHANG | WNOWAIT) == 0 && next.si_pid > 0) {
      const pid_t pid = next.si_pid;
      const ThreadTimes first = workers_.count(pid) != 0 ? ReadThreadTimes(pid) : ThreadTimes();
      int status = 0;
      rusage usage{};
      if (wait4(pid, &status, WNOHANG, &usage) != pid) {
        return;
      }
      const absl::Duration cpu =
          absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
      Ended(pid, status, static_cast<uint64_t>(usage.ru_maxrss) * 1024,
            {absl::ToInt64Nanoseconds(cpu), absl::ToInt64Nanoseconds(first.ran),
             absl::ToInt64Nanoseconds(first.waited)});
      next = {};
    }
  }

  void Ended(pid_t pid, int status, uint64_t peak_bytes, const EndTimes& times = {}) {
    const auto it = workers_.find(pid);
    if (it == workers_.end()) {
      return;  // an orphan of a worker that we inherited
    }
    const int32_t index = it->second;
    workers_.erase(it);
    held_.erase(pid);
    // What remains of its process group has lost its leader; everything else is ended by kClear.
    const bool alone = workers_.empty() && Descendants().empty();
    ShepherdFrame frame = FrameOf(ShepherdNews::kEnded, index, status, peak_bytes, "");
    frame.alone = alone ? 1 : 0;
    frame.times = times;
    news_.push_back(std::move(frame));
    SendNews();
  }

  // What a worker left behind has become a child of ours, as has a daemon of one that lives: the
  // environment tells them apart or, where that says nothing, the process group. One that has given
  // up both stays until kClear, and what cannot be ended now is told then.
  void ClearWorker(int32_t index) {
    const auto found = traces_.find(index);
    if (found == traces_.end()) {
      return;
    }
    const WorkerTrace& trace = found->second;
    const auto is_left = [this, &trace](pid_t child) {
      if (workers_.count(child) != 0) {
        return false;
      }
      const bool marked = trace.marks.size() == 2 && HasInEnvironment(child, {trace.marks[0]});
      return marked ? HasInEnvironment(child, {trace.marks[1]}) : getpgid(child) == trace.group;
    };
    KillTrees(is_left, kKillWithin,
              [this](pid_t child, int status, uint64_t peak) { Ended(child, status, peak); });
  }

  void Clear(ShepherdNews news) {
    const KillResult result = KillDescendants(
        kKillWithin, [this](pid_t pid, int status, uint64_t peak) { Ended(pid, status, peak); });
    strays_.End();
    groups_.End();
    held_.clear();
    stopped_.clear();
    traces_.clear();
    let_go_ = false;
    workers_.clear();  // what survived is no worker of the next round: its end is no news
    Tell(news, -1, static_cast<int64_t>(result.survivors.size()), 0,
         absl::StrJoin(result.survivors, ", "));
  }

  void SetLease(int64_t boot_ns) {
    const bool stood_still = lease_.stands_still();
    const absl::Time until = boot_ns == 0 ? absl::InfiniteFuture() : absl::FromUnixNanos(boot_ns);
    lease_ns_ = boot_ns;
    if (!lease_.Set(until, BootNow())) {
      Tell(ShepherdNews::kLeaseSeen, -1, lease_ns_, 0, "");  // it is over, as the last one is
    } else if (stood_still) {
      ContinueDescendants(stopped_);
      stopped_.clear();
    }
    ArmLease();
  }

  void LookAtLease() {
    const LeaseWatch::Due due = lease_.Look(BootNow());
    if (due != LeaseWatch::Due::kNothing) {
      Tell(ShepherdNews::kLeaseSeen, -1, lease_ns_, 0, "");
    }
    if (due == LeaseWatch::Due::kKill) {
      Clear(ShepherdNews::kLeaseEnded);
      if (useless_io_ > 0) {
        io_.Ask(BootNow());
      }
    } else if (lease_.stands_still()) {
      StopDescendants(stopped_);  // again, as who stopped us all may wake them after us
    }
    ArmLease();
  }

  void ArmLease() {
    const absl::Time again =
        lease_.stands_still() ? BootNow() + kStopAgain : absl::InfiniteFuture();
    const absl::Time next = std::min(lease_.next(), again);
    itimerspec at{};
    if (next != absl::InfiniteFuture()) {
      at.it_value = absl::ToTimespec(next);
    }
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
  }

  void RemoveRunDir() {
    if (run_dir_.empty()) {
      return;
    }
    std::error_code ignored;
    std::filesystem::remove_all(run_dir_, ignored);
  }

  void Tell(ShepherdNews news, int32_t index, int64_t value, uint64_t extra,
            const std::string& text) {
    Note(news, index, value, extra, text);
    SendNews();
  }

  // What waits for the end of the orders at hand: else each start would wake the I/O process, which
  // takes a core from those that are starting.
  void Note(ShepherdNews news, int32_t index, int64_t value, uint64_t extra,
            const std::string& text) {
    news_.push_back(FrameOf(news, index, value, extra, text));
  }

  static ShepherdFrame FrameOf(ShepherdNews news, int32_t index, int64_t value, uint64_t extra,
                               const std::string& text) {
    ShepherdFrame frame;
    frame.type = static_cast<uint32_t>(news);
    frame.index = index;
    frame.value = value;
    frame.extra = extra;
    frame.payload = text.substr(0, 4096);
    return frame;
  }

  // Never waits: a frozen I/O process must not keep us from the lease.
  void SendNews() {
    while (!news_.empty() && !orphaned_) {
      const absl::Status sent = SendFrame(socket_.get(), news_.front());
      if (absl::IsUnavailable(sent)) {
        return;
      }
      orphaned_ = !sent.ok();
      news_.pop_front();
    }
  }

  UniqueFd socket_;
  UniqueFd door_;           // the workers' end
  const pid_t useless_io_;  // the I/O process, once it is silent after the lease; -1 = it stays
  AnswerWatch io_{kIoWithin, kIoWithin};
  UniqueFd signals_;
  UniqueFd timer_;  // of the lease
  UniqueFd null_;
  SessionEar session_;
  LifePipe life_;  // of which workers open an end; the writer is ours alone
  StrayGroups strays_{life_};
  SignalGroups groups_;
  std::string programs_;  // owns what request_ and environment_ point into
  std::vector<char*> environment_;
  SpawnRequest request_;
  std::map<pid_t, int32_t> workers_;
  std::map<int32_t, WorkerTrace> traces_;  // by worker, of its last life
  std::set<pid_t> held_;  // of workers_: those that stand still, or that a debugger has since
  bool let_go_ = false;   // they may go on
  LeaseWatch lease_;
  int64_t lease_ns_ = 0;            // what kSetLease has said last
  std::set<pid_t> stopped_;         // as they have no lease
  std::deque<ShepherdFrame> news_;  // not sent yet; bounded by the orders taken, two a worker
  std::string run_dir_;
  bool orphaned_ = false;
};

}  // namespace

void RunShepherd(UniqueFd socket, UniqueFd door, std::vector<ProcessLimit> limits,
                 pid_t useless_io) {
  ResetSignals();  // once, in place of two calls a signal in each worker
  Shepherd(std::move(socket), std::move(door), std::move(limits), useless_io).Run();
}

}  // namespace muster
