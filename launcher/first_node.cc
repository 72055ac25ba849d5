#include "launcher/first_node.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <list>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "agent/io/node_facts.h"
#include "launcher/fd_writer.h"
#include "launcher/job_run.h"
#include "launcher/schedule/child_process.h"
#include "launcher/schedule/last_words.h"
#include "launcher/schedule/slurm.h"
#include "launcher/stdin_reader.h"
#include "launcher/user_signals.h"
#include "proto/base/log.h"
#include "proto/wire/uv_handles.h"

namespace muster {
namespace {

constexpr char kEnvTypedSlurm[] = "MUSTER_TYPED_SLURM";
constexpr absl::string_view kStepLine = "muster-step ";
constexpr size_t kStepLineBytesMax = 64;
constexpr absl::string_view kSrunError = "srun: error: ";
// Signals under way: a user who presses Ctrl-C again and again.
constexpr size_t kSignalsMax = 8;

class FirstNodeLaunch {
 public:
  FirstNodeLaunch(uv_loop_t* loop, const JobSpec& spec, Child child)
      : loop_(loop),
        pid_(child.pid),
        channel_(std::move(child.channel)),
        errors_fd_(std::move(child.errors)),
        errors_(spec.nodes.front().host.name),
        out_(loop, STDOUT_FILENO, "stdout"),
        err_(loop, STDERR_FILENO, "stderr"),
        stdin_(loop, [this](const std::string& bytes, bool eof) { OnStdin(bytes, eof); }),
        signals_(loop, SignalCallbacks(), spec.plan.stop_signals, spec.keeper_fd),
        pause_(loop, UserSignals::SuspendSelf),
        channel_poll_(loop, channel_.get(), [this](int events) { OnChannel(events); }),
        errors_poll_(loop, errors_fd_.get(), [this](int) { ReadErrors(); }),
        child_(loop, SIGCHLD, [this] { Reap(); }) {
    out_.on_writable = err_.on_writable = [this] { Watch(); };
    out_.on_closed = [this](const std::string&) {
      nobody_reads_ = true;
      Pass(SIGTERM);
    };
    if (spec.plan.stdin_mode == StdinMode::kNone || StdinReader::NothingThere()) {
      OnStdin("", true);
    } else {
      stdin_.Start();
    }
    Watch();
  }

  ~FirstNodeLaunch() {
    for (const Signal& signal : under_way_) {
      kill(-signal.child.pid, SIGKILL);
      waitpid(signal.child.pid, nullptr, 0);
    }
  }

  bool ended() const {
    return pid_ < 0 && out_ended_ && errors_ended_ && out_.Idle() && err_.Idle();
  }
  int Report() const {
    return TellExitCodeAsShown(code_, nobody_reads_ && !signals_.stop_asked(), LostOf(out_, err_));
  }

 private:
  // A scancel that runs.
  struct Signal {
    Child child;
    std::unique_ptr<LastWords> words;
  };

  UserSignals::Callbacks SignalCallbacks() {
    UserSignals::Callbacks out;
    out.on_stop = [this](const StopWish& wish) {
      pause_.Stop();  // the job goes on, to its end
      if (wish.now && step_.empty() && pid_ > 0) {
        kill(-pid_, SIGTERM);  // nothing runs there yet that could end in order
      }
      Pass(wish.signo);
    };
    out.on_pass = [this](int signo) { Pass(signo); };
    out.on_suspend = [this] {
      Pass(SIGTSTP);
      pause_.StartAfter(UserSignals::kPauseSpreads);
    };
    out.on_continue = [this] {
      pause_.Stop();
      Pass(SIGCONT);
      stdin_.Continued();
    };
    return out;
  }

  void Pass(int signo) {
    if (pid_ < 0) {
      return;
    }
    if (step_.empty()) {
      if (early_.size() < kSignalsMax) {
        early_.push_back(signo);
      }
      return;
    }
    if (under_way_.size() >= kSignalsMax) {
      return;  // as many are on their way
    }
    absl::StatusOr<Child> child = SpawnChild({"scancel", absl::StrCat("--signal=", signo), step_},
                                             SrunEnvironment(OwnEnvironment()));
    if (!child.ok()) {
      return LogError(child.status().message());
    }
    Signal& signal = under_way_.emplace_back();
    signal.child = *std::move(child);
    signal.words = std::make_unique<LastWords>(loop_, std::move(signal.child.errors),
                                               [](const std::string&) {});
  }

  void OnStdin(const std::string& bytes, bool eof) {
    stdin_bytes_.append(bytes);
    stdin_eof_ = stdin_eof_ || eof;
    WriteStdin();
    Watch();
  }

  void WriteStdin() {
    while (!stdin_bytes_.empty()) {
      const ssize_t n = send(channel_.get(), stdin_bytes_.data(), stdin_bytes_.size(),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) {
        return;
      }
      // Where nobody takes it any more, it goes nowhere.
      const size_t gone = n < 0 ? stdin_bytes_.size() : static_cast<size_t>(n);
      stdin_bytes_.erase(0, gone);
      stdin_.Taken(gone);
    }
    if (std::exchange(stdin_eof_, false)) {
      shutdown(channel_.get(), SHUT_WR);
    }
  }

  // What may come, and what may go.
  void Watch() {
    const int out = !out_ended_ && !out_.Busy() ? UV_READABLE : 0;
    const int in = stdin_bytes_.empty() ? 0 : UV_WRITABLE;
    if ((out | in) == 0) {
      channel_poll_.Stop();
    } else {
      channel_poll_.Start(out | in);
    }
    if (errors_ended_ || err_.Busy()) {
      errors_poll_.Stop();
    } else {
      errors_poll_.Start(UV_READABLE);
    }
  }

  void OnChannel(int events) {
    if ((events & UV_WRITABLE) != 0) {
      WriteStdin();
    }
    if ((events & UV_READABLE) != 0) {
      out_ended_ = !ReadSome(channel_.get(), [this](absl::string_view bytes) { OnOut(bytes); });
    }
    Watch();
  }

  void OnOut(absl::string_view bytes) {
    if (!begun_) {
      first_line_.append(bytes.data(), bytes.size());
      const size_t end = first_line_.find('\n');
      if (end == std::string::npos && first_line_.size() < kStepLineBytesMax) {
        return;
      }
      begun_ = true;
      const std::optional<std::string> step = StepOfLine(first_line_.substr(0, end));
      if (step) {
        step_ = *step;
        LogDebug(absl::StrCat("launch runs in Slurm's step ", step_));
        for (const int signo : std::exchange(early_, {})) {
          Pass(signo);
        }
      }
      bytes = absl::string_view(first_line_).substr(step ? end + 1 : 0);
    }
    out_.Write(bytes);
  }

  void ReadErrors() {
    errors_ended_ = !ReadSome(errors_fd_.get(),
                              [this](absl::string_view bytes) { err_.Write(errors_.Take(bytes)); });
    if (errors_ended_) {
      err_.Write(errors_.Rest());
    }
    Watch();
  }

  // False: there is nothing more.
  template <typename Taker>
  static bool ReadSome(int fd, const Taker& take) {
    char bytes[64u << 10];
    const ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n > 0) {
      take(absl::string_view(bytes, static_cast<size_t>(n)));
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void Reap() {
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      code_ = ExitCodeOf(status);
      stdin_.Stop();
    }
    for (auto at = under_way_.begin(); at != under_way_.end();) {
      if (waitpid(at->child.pid, &status, WNOHANG) != at->child.pid) {
        ++at;
        continue;
      }
      at->words->Finish();
      if (status != 0 && pid_ > 0) {  // else it came too late
        LogWarning(absl::StrCat("scancel ", HowItEnded(status), at->words->Text()));
      }
      at = under_way_.erase(at);
    }
  }

  uv_loop_t* const loop_;
  pid_t pid_;  // srun; -1 = it has ended
  const UniqueFd channel_;
  const UniqueFd errors_fd_;
  SrunErrors errors_;
  FdWriter out_;
  FdWriter err_;
  StdinReader stdin_;
  UserSignals signals_;
  UvTimer pause_;
  UvPoll channel_poll_;
  UvPoll errors_poll_;
  UvSignal child_;
  bool begun_ = false;  // the first line of stdout is there
  std::string first_line_;
  std::string step_;        // "17.3", once that is known
  std::vector<int> early_;  // signals that came before
  std::list<Signal> under_way_;
  std::string stdin_bytes_;
  bool stdin_eof_ = false;
  bool out_ended_ = false;
  bool errors_ended_ = false;
  bool nobody_reads_ = false;
  int code_ = kExitFailed;
};

}  // namespace

bool MayServeOnFirstNode(const JobSpec& spec) {
  return spec.given_hosts.has_value() && spec.given_hosts->scheduler == Scheduler::kSlurm &&
         !spec.plan.pty.has_value() && spec.keeper_fd < 0 &&
         std::none_of(spec.nodes.begin(), spec.nodes.end(),
                      [&spec](const NodeWorkers& node) { return IsHere(spec, node.host); });
}

int RunOnFirstNode(uv_loop_t* loop, const JobSpec& spec, const std::string& agent_path) {
  std::vector<std::string> environment = SrunEnvironment(OwnEnvironment());
  environment.push_back(absl::StrCat(kEnvTypedSlurm, "=", PackSlurmVariables(OwnEnvironment())));
  const std::string launch = absl::StrCat(agent_path.substr(0, agent_path.rfind('/')), "/launch");
  absl::StatusOr<Child> child =
      SpawnChild(FirstNodeCommand(SrunOptions(*spec.given_hosts, {spec.nodes.front().host.name}),
                                  launch, spec.command_line),
                 std::move(environment));
  if (!child.ok()) {
    LogError(child.status().message());
    return kExitFailed;
  }
  FirstNodeLaunch there(loop, spec, *std::move(child));
  UvRunUntil(loop, [&there] { return there.ended(); });
  return there.Report();
}

bool TakeTypedPlace() {
  const char* packed = std::getenv(kEnvTypedSlurm);
  const char* job = std::getenv("SLURM_JOB_ID");
  const char* step = std::getenv("SLURM_STEP_ID");
  if (packed == nullptr || job == nullptr || step == nullptr) {
    return false;
  }
  const std::string line = absl::StrCat(kStepLine, job, ".", step, "\n");
  const std::vector<std::string> typed = UnpackSlurmVariables(packed);
  unsetenv(kEnvTypedSlurm);
  for (const std::string& entry : OwnEnvironment()) {
    if (absl::StartsWith(entry, "SLURM_")) {
      unsetenv(entry.substr(0, entry.find('=')).c_str());
    }
  }
  for (const std::string& entry : typed) {
    const std::pair<std::string, std::string> one = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    setenv(one.first.c_str(), one.second.c_str(), /*replace=*/1);
  }
  // The first bytes of a pipe: there is room.
  return write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

std::vector<std::string> FirstNodeCommand(std::vector<std::string> srun,
                                          const std::string& launch_path,
                                          const std::vector<std::string>& arguments) {
  srun.insert(srun.end(), {"--unbuffered", launch_path});
  srun.insert(srun.end(), arguments.begin(), arguments.end());
  return srun;
}

std::string PackSlurmVariables(const std::vector<std::string>& own) {
  std::string out;
  for (const std::string& entry : own) {
    if (absl::StartsWith(entry, "SLURM_")) {
      absl::StrAppend(&out, absl::CHexEscape(entry), "\n");
    }
  }
  return out;
}

std::vector<std::string> UnpackSlurmVariables(absl::string_view packed) {
  std::vector<std::string> out;
  for (const absl::string_view line : absl::StrSplit(packed, '\n', absl::SkipEmpty())) {
    std::string entry;
    if (absl::CUnescape(line, &entry)) {
      out.push_back(std::move(entry));
    }
  }
  return out;
}

std::optional<std::string> StepOfLine(absl::string_view line) {
  uint32_t job = 0;
  uint32_t step = 0;
  const bool is = absl::ConsumePrefix(&line, kStepLine);
  const std::pair<absl::string_view, absl::string_view> ids =
      absl::StrSplit(line, absl::MaxSplits('.', 1));
  const bool numbers =
      is && absl::SimpleAtoi(ids.first, &job) && absl::SimpleAtoi(ids.second, &step);
  return numbers && line == absl::StrCat(job, ".", step) ? std::optional<std::string>(line)
                                                         : std::nullopt;
}

bool SrunErrors::LeftOut() const {
  return absl::StartsWith(held_,
                          absl::StrCat(kSrunError, host_, ": task 0: Exited with exit code "));
}

std::string SrunErrors::Take(absl::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    held_.push_back(c);
    const size_t both = std::min(held_.size(), kSrunError.size());
    passing_ = passing_ || absl::string_view(held_).substr(0, both) != kSrunError.substr(0, both);
    if (c == '\n' && !passing_ && LeftOut()) {
      held_.clear();
    }
    if (c == '\n' || passing_) {
      out += std::exchange(held_, "");
    }
    passing_ = passing_ && c != '\n';
  }
  return out;
}

std::string SrunErrors::Rest() { return std::exchange(held_, ""); }

}  // namespace muster
