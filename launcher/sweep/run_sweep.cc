#include "launcher/sweep/run_sweep.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/io/node_facts.h"
#include "agent/io/small_file.h"
#include "launcher/answer.h"
#include "launcher/job_run.h"
#include "launcher/jobs/wait_signals.h"
#include "launcher/look_first.h"
#include "launcher/schedule/child_process.h"
#include "launcher/sweep/rate_pattern.h"
#include "launcher/sweep/sweep_command.h"
#include "launcher/sweep/sweep_table.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// launch ends its workers itself, after their grace; then something else is wrong.
constexpr absl::Duration kEndWithin = absl::Seconds(90);
constexpr size_t kLineMax = 64u << 10;
constexpr size_t kRatesMax = 100000;  // the last ones
constexpr size_t kLastLines = 8;      // of a run that failed, to be shown
constexpr size_t kReportBytesMax = 64u << 20;

// Lines of a stream, as they come.
class Lines {
 public:
  template <typename Take>
  void Put(absl::string_view bytes, Take take) {
    for (const char c : bytes) {
      if (c == '\n' || c == '\r' || line_.size() >= kLineMax) {
        take(std::exchange(line_, ""));
      }
      if (c != '\n' && c != '\r') {
        line_ += c;
      }
    }
  }

 private:
  std::string line_;
};

class SweepSession {
 public:
  SweepSession(Child child, const WaitSignals& signals, const RatePattern* pattern)
      : child_(std::move(child)),
        process_(static_cast<int>(syscall(SYS_pidfd_open, child_.pid, 0))),
        signals_(signals),
        pattern_(pattern) {
    shutdown(child_.channel.get(), SHUT_WR);  // its stdin is empty
  }
  ~SweepSession() {
    if (child_.pid > 0) {
      kill(child_.pid, SIGKILL);
      waitpid(child_.pid, nullptr, 0);
    }
  }
  SweepSession(const SweepSession&) = delete;
  SweepSession& operator=(const SweepSession&) = delete;

  // Stops it after `each`. The status of waitpid(2).
  int Run(absl::Duration each) {
    Listen(began_ + each);
    if (!ended_) {
      stopped_ = true;
      kill(child_.pid, signo_ != 0 ? signo_ : SIGTERM);
      Listen(BootNow() + kEndWithin);
    }
    took_ = BootNow() - began_;
    if (!ended_) {
      kill(child_.pid, SIGKILL);
    }
    int status = 0;
    waitpid(std::exchange(child_.pid, -1), &status, 0);
    return status;
  }

  bool stopped() const { return stopped_; }  // by us
  int signo() const { return signo_; }       // that we were sent
  absl::Duration took() const { return took_; }
  const std::vector<double>& rates() const { return rates_; }
  std::string last_lines() const { return absl::StrJoin(last_, "\n"); }

 private:
  // Until it has ended and what it wrote is read, a first signal comes, or the deadline. Others
  // that still have its output open are not waited for.
  void Listen(absl::Time deadline) {
    while (!ended_ && BootNow() < deadline) {
      pollfd fds[] = {{open_out_ ? child_.channel.get() : -1, POLLIN, 0},
                      {open_err_ ? child_.errors.get() : -1, POLLIN, 0},
                      {process_.get(), POLLIN, 0}};
      signals_.Poll(absl::MakeSpan(fds), deadline - BootNow());
      if (const int signo = WaitSignals::Take(); signo != 0) {
        signo_ = signo;
        if (!stopped_) {
          return;
        }
        kill(child_.pid, signo);
      }
      open_out_ = open_out_ && (fds[0].revents == 0 || Read(child_.channel.get(), out_));
      open_err_ = open_err_ && (fds[1].revents == 0 || Read(child_.errors.get(), err_));
      const bool gone = fds[2].revents != 0 || (!process_.valid() && !open_out_ && !open_err_);
      ended_ = gone && fds[0].revents == 0 && fds[1].revents == 0;
    }
  }

  // False at the end.
  bool Read(int fd, Lines& lines) {
    char bytes[1 << 14];
    const ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n > 0) {
      lines.Put({bytes, static_cast<size_t>(n)},
                [this](std::string line) { TakeLine(std::move(line)); });
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void TakeLine(std::string line) {
    if (pattern_ != nullptr) {
      if (const std::optional<double> rate = pattern_->In(line); rate.has_value()) {
        if (rates_.size() == kRatesMax) {
          rates_.erase(rates_.begin(), rates_.begin() + kRatesMax / 2);
        }
        rates_.push_back(*rate);
      }
    }
    last_.push_back(std::move(line));
    if (last_.size() > kLastLines) {
      last_.pop_front();
    }
  }

  Child child_;
  const UniqueFd process_;  // pidfd: readable = it has ended; none from old kernels
  const WaitSignals& signals_;
  const RatePattern* const pattern_;  // of the caller's; outlives us
  const absl::Time began_ = BootNow();
  absl::Duration took_;
  Lines out_;
  Lines err_;
  std::vector<double> rates_;
  std::deque<std::string> last_;
  bool open_out_ = true;
  bool open_err_ = true;
  bool ended_ = false;
  bool stopped_ = false;
  int signo_ = 0;
};

// What a run did not do well; "" where it ended by itself with 0, or was stopped by us in time.
std::string HowItFailed(int status, bool stopped) {
  const int code = ExitCodeOf(status);
  const bool well = code == 0 || (stopped && code == 128 + SIGTERM);
  return well ? "" : absl::StrCat("failed: launch ", HowItEnded(status));
}

// One run. `signo`: by which we were told to end.
absl::StatusOr<SweepResult> Try(const SweepCommand& command, const SweepRun& run,
                                const RatePattern* pattern, const WaitSignals& signals,
                                int& signo) {
  const UniqueFd report(memfd_create("report", MFD_CLOEXEC));
  if (!report.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("launch sweep: no memory for a report: ", std::strerror(errno)));
  }
  std::vector<std::string> argv = {"/proc/self/exe", "--report",
                                   absl::StrCat("/proc/", getpid(), "/fd/", report.get())};
  argv.insert(argv.end(), run.words.begin(), run.words.end());
  // Nobody would read what a run of ours that took its --grace to end still says.
  ASSIGN_OR_RETURN(Child child,
                   SpawnChild(std::move(argv), {}, ChildLeads::kGroup, /*at_our_end=*/SIGKILL));
  SweepSession session(std::move(child), signals, pattern);
  const int status = session.Run(command.each);
  signo = session.signo();
  SweepResult out;
  out.run = run;
  out.failed = HowItFailed(status, session.stopped());
  out.rate = RateOf(session.rates());
  if (!session.stopped() && out.failed.empty()) {
    out.took = session.took();
  }
  if (!TakeReport(ReadAt(report.get(), 0, kReportBytesMax), out) && out.failed.empty() &&
      signo == 0) {
    LogWarning(absl::StrCat(run.said, ": its report cannot be read: how long its workers waited ",
                            "for a CPU, and how fast they were, is not known"));
  }
  if (pattern != nullptr && out.failed.empty() && !out.rate.has_value() && signo == 0) {
    LogWarning(absl::StrCat(run.said, ": --rate-regex ", ShellQuote(command.rate_regex),
                            " has found no rate in its output; its last lines:\n",
                            session.last_lines()));
  }
  if (!out.failed.empty() && signo == 0) {
    LogError(absl::StrCat(run.said, ": ", out.failed, "; its last lines:\n", session.last_lines()));
  }
  return out;
}

absl::StatusOr<int> Sweep(const SweepCommand& command) {
  std::optional<RatePattern> pattern;
  if (!command.rate_regex.empty()) {
    ASSIGN_OR_RETURN(pattern, RatePattern::Compile(command.rate_regex));
  }
  const WaitSignals signals;  // before there is a child, which looks whether we mind them
  std::vector<SweepResult> results;
  for (const SweepRun& run : command.runs) {
    LogInfo(absl::StrCat("run ", results.size() + 1, " of ", command.runs.size(), ": ", run.said));
    int signo = 0;
    ASSIGN_OR_RETURN(SweepResult result,
                     Try(command, run, pattern.has_value() ? &*pattern : nullptr, signals, signo));
    if (signo != 0) {
      const int shown = results.empty() || command.json ? 0 : PrintAnswer(SweepTable(results));
      return shown != 0 ? shown : 128 + signo;
    }
    results.push_back(std::move(result));
  }
  const std::string text = command.json ? SweepJson(results) : SweepTable(results);
  if (const int code = PrintAnswer(text); code != 0) {
    return code;
  }
  return HasBest(results) ? 0 : kExitFailed;
}

}  // namespace

int RunSweep(const std::vector<std::string>& words) {
  const absl::StatusOr<SweepCommand> command =
      ParseSweepCommand(words, EnvironmentMap(OwnEnvironment()), ReadJobFile);
  if (!command.ok()) {
    LogError(command.status().message());
    return kExitUsage;
  }
  if (command->help) {
    return PrintAnswer(SweepHelp());
  }
  const absl::StatusOr<int> code = Sweep(*command);
  if (!code.ok()) {
    LogError(code.status().message());
  }
  return code.value_or(kExitFailed);
}

}  // namespace muster
