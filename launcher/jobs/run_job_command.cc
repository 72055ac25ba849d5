#include "launcher/jobs/run_job_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "launcher/answer.h"
#include "launcher/exit_codes.h"
#include "launcher/jobs/attach_question.h"
#include "launcher/jobs/control_socket.h"
#include "launcher/jobs/job_command.h"
#include "launcher/jobs/job_folder.h"
#include "launcher/jobs/job_id.h"
#include "launcher/jobs/job_log.h"
#include "launcher/jobs/job_table.h"
#include "launcher/jobs/keeper_link.h"
#include "launcher/jobs/wait_signals.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/shared_fd.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

// The keeper wakes us long before; a look now and then costs nothing, and needs nobody.
constexpr absl::Duration kLookAgain = absl::Seconds(5);
constexpr absl::Duration kLookForEnd = absl::Milliseconds(10);
constexpr absl::Duration kAnswer = absl::Seconds(10);  // of a keeper to a request
// From the end of the grace to that of everything: longer than the keeper is patient with its
// launcher.
constexpr absl::Duration kAfterGrace = absl::Seconds(60);

struct Shown {
  bool interrupted = false;
  int failed = 0;  // the exit code where stdout did not take it
  bool All() const { return !interrupted && failed == 0; }
};

// What is in the log from the reader's place on, until a signal comes: also a terminal that stands
// still can be left.
Shown ShowRest(JobLogReader& log, const WaitSignals& signals) {
  for (std::string text = log.Next(); !text.empty(); text = log.Next()) {
    if (const uint64_t skipped = log.TakeSkipped(); skipped > 0) {
      LogWarning(absl::StrCat("the oldest ", skipped, " bytes were dropped (--job-log)"));
    }
    for (absl::string_view rest = text; !rest.empty();) {
      signals.Poll(STDOUT_FILENO, POLLOUT, kLookAgain);
      if (WaitSignals::Pending()) {
        log.Back(rest.size());  // whoever goes on sees them
        return {.interrupted = true};
      }
      pollfd ready = {STDOUT_FILENO, POLLOUT, 0};
      if (poll(&ready, 1, 0) != 1) {
        continue;
      }
      // So much never blocks now.
      const std::optional<size_t> taken = TryWriteShared(STDOUT_FILENO, rest.substr(0, PIPE_BUF));
      if (!taken.has_value()) {
        return {.failed = UnwrittenCode(errno)};
      }
      rest.remove_prefix(*taken);
    }
  }
  return {};
}

int ShowRestOnly(JobLogReader& log) {
  const WaitSignals signals;
  const Shown shown = ShowRest(log, signals);
  return shown.interrupted ? 128 + WaitSignals::Take() : shown.failed;
}

absl::StatusOr<UniqueFd> Connect(const StoredJob& job) {
  absl::StatusOr<UniqueFd> fd = ConnectToControl(job.folder);
  if (!fd.ok()) {
    return absl::UnavailableError(absl::StrCat(job.record.id, ": its keeper (process ",
                                               job.record.keeper.pid,
                                               ") does not answer: ", fd.status().message()));
  }
  return fd;
}

// The record once the keeper has gone; its process is there for a moment longer than its socket.
// None: it still runs after `wait`, or a signal came.
std::optional<JobRecord> LastRecord(const StoredJob& job, absl::Duration wait,
                                    const WaitSignals& signals) {
  const absl::Time until = BootNow() + wait;
  for (;;) {
    const bool runs = Runs(job.record.keeper);  // before the look at what it wrote last
    JobRecord record = ReadRecord(job.folder).value_or(job.record);
    if (!record.live()) {
      return record;
    }
    if (!runs) {
      record.state = JobState::kLost;
      return record;
    }
    if (BootNow() >= until || WaitSignals::Pending()) {
      return std::nullopt;
    }
    signals.Poll(-1, 0, kLookForEnd);
  }
}

int CodeOf(const JobRecord& record) {
  return record.state == JobState::kEnded ? record.exit_code
         : record.exit_code != 0          ? record.exit_code
                                          : kExitFailed;
}

// Those of one word, or all; how many were left out is added to `ended`.
absl::StatusOr<std::vector<JobRecord>> JobsToShow(const JobCommand& command, size_t& ended) {
  const std::vector<JobRecord> records = RecordsOf(ForgetOldJobs(ReadJobs(), absl::Now()));
  std::vector<JobRecord> shown;
  if (!command.job.empty()) {
    ASSIGN_OR_RETURN(const std::vector<size_t> found, FindJobs(records, command.job));
    for (const size_t i : found) {
      shown.push_back(records[i]);
    }
    return shown;
  }
  std::copy_if(records.begin(), records.end(), std::back_inserter(shown),
               [&](const JobRecord& one) { return command.all || one.state != JobState::kEnded; });
  ended += records.size() - shown.size();
  return shown;
}

int Ps(const JobCommand& command, const std::string& launch) {
  ForgetKilledStarts(absl::Now());
  size_t ended = 0;
  const absl::StatusOr<std::vector<JobRecord>> shown = JobsToShow(command, ended);
  if (!shown.ok()) {
    LogError(absl::StrCat("launch ps: ", shown.status().message(),
                          "; to run a program of that name: launch -- ps"));
    return kExitUsage;
  }
  winsize window{};
  const bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0;
  const int code =
      PrintAnswer(command.json ? JobsJson(*shown)
                               : JobTable(*shown, absl::Now(), terminal ? window.ws_col : 0));
  if (ended > 0 && !command.json) {
    LogInfo(absl::StrCat(Plural(ended, "job has", "jobs have"), " ended: ", launch, " ps -a"));
  }
  return code;
}

int Ended(const JobRecord& record) {
  if (record.state == JobState::kLost || record.exit_code != 0) {
    LogInfo(HowEnded(record));
  }
  return CodeOf(record);
}

std::string Crowded(const JobRecord& record, absl::string_view instead) {
  return absl::StrCat(record.id, ": too many attach, logs -f and stop at the same time: ", instead);
}

// Shows the log until the job ends; its exit code, or 128 + the signal that detached us. `asks`:
// what Ctrl-C means.
int Follow(const StoredJob& job, JobLogReader& log, const std::string& launch, bool asks) {
  const absl::StatusOr<UniqueFd> keeper = Connect(job);
  const WaitSignals signals;
  if (keeper.ok()) {
    SendPacket(keeper->get(), Packet::kFollow);
  }
  bool full = false;
  bool closed = !keeper.ok();
  bool stopping = false;
  const auto take_packets = [&] {
    while (const auto packet = ReceivePacket(keeper->get(), closed)) {
      full = full || packet->kind == Packet::kFull;
    }
    return closed || full;
  };
  for (;;) {
    std::optional<JobRecord> last;  // before the rest of the log
    if (closed) {
      last = LastRecord(job, kAnswer, signals);
    }
    if (full || (closed && !last.has_value() && !WaitSignals::Pending())) {
      LogError(keeper.ok() ? Crowded(job.record, absl::StrCat("what the job prints is in ", launch,
                                                              " logs ", job.record.id))
                           : keeper.status().message());
      return kExitFailed;
    }
    const Shown shown = ShowRest(log, signals);
    if (shown.failed != 0) {
      return shown.failed;
    }
    if (last.has_value() && shown.All()) {
      return Ended(*last);
    }
    if (const int signo = WaitSignals::Take(); signo != 0) {
      const AttachAnswer answer = asks && signo == SIGINT && !closed && CanAskAtTerminal()
                                      ? AskAtTerminal(AttachQuestion(job.record.id, stopping),
                                                      keeper->get(), take_packets, signals)
                                      : AttachAnswer::kDetach;
      if (answer == AttachAnswer::kDetach) {
        LogInfo(absl::StrCat("detached from ", job.record.id, ", which goes on; stop it: ", launch,
                             " stop ", job.record.id));
        return 128 + signo;
      }
      if (answer == AttachAnswer::kStop) {
        SendPacket(keeper->get(), Packet::kStop, StopText({SIGINT, stopping, -1}));
        LogInfo(
            absl::StrCat(job.record.id, stopping ? " is being killed" : " has been asked to stop"));
        stopping = true;
      }
      continue;
    }
    signals.Poll(keeper->get(), POLLIN, kLookAgain);
    take_packets();
  }
}

// What --tail and --since leave of the past.
void SkipPast(const JobCommand& command, JobLogReader& log) {
  if (command.lines.has_value()) {
    log.ToLastLines(*command.lines);
  }
  if (command.since.value_or(absl::InfinitePast()) != absl::InfinitePast() &&
      !log.SkipBefore(*command.since)) {
    LogWarning(
        "--since: when the first lines were printed is not known (the disk was full, or an older "
        "launch keeps the job): they may be from before");
  }
}

int Attach(const JobCommand& command, const StoredJob& job, const std::string& launch) {
  JobLogReader log(job.folder);
  if (!command.lines.has_value() && !command.since.has_value()) {
    log.ToEnd();
  }
  SkipPast(command, log);
  if (job.record.live()) {
    return Follow(job, log, launch, /*asks=*/true);
  }
  if (const int shown = ShowRestOnly(log); shown != 0) {
    return shown;
  }
  LogInfo(absl::StrCat(HowEnded(job.record), "; its output: ", launch, " logs ", job.record.id));
  return CodeOf(job.record);
}

int Logs(const JobCommand& command, const StoredJob& job, const std::string& launch) {
  JobLogReader log(job.folder);
  SkipPast(command, log);
  if (command.follow && job.record.live()) {
    return Follow(job, log, launch, /*asks=*/false);
  }
  return ShowRestOnly(log);
}

struct Answer {
  bool taken = false;   // the order
  bool closed = false;  // the connection
};

// What becomes of an order: until the keeper closes the connection, for at most `wait`.
Answer AwaitEnd(int keeper, absl::Duration wait, const WaitSignals& signals) {
  const absl::Time begun = BootNow();
  for (Answer out;;) {
    while (const auto packet = ReceivePacket(keeper, out.closed)) {
      out.taken = out.taken || packet->kind == Packet::kOk;
    }
    const absl::Duration left = (out.taken ? wait : kAnswer) - (BootNow() - begun);
    if (out.closed || left <= absl::ZeroDuration() || WaitSignals::Pending()) {
      return out;
    }
    signals.Poll(keeper, POLLIN, left);
  }
}

int Stop(const JobCommand& command, const StoredJob& job, const std::string& launch) {
  const JobRecord& record = job.record;
  if (!record.live()) {
    LogInfo(HowEnded(record));
    return 0;
  }
  if (command.grace.has_value() && *command.grace > record.grace) {
    LogError(absl::StrCat("--grace: the job was started with --grace ", ShortDuration(record.grace),
                          ", after which its workers are killed: want that or less, got ",
                          ShortDuration(*command.grace)));
    return kExitUsage;
  }
  const absl::StatusOr<UniqueFd> keeper = Connect(job);
  StopOrder order{command.signal, command.now, -1};
  const absl::Duration grace =
      command.now ? absl::ZeroDuration() : command.grace.value_or(record.grace);
  if (command.grace.has_value()) {
    order.grace_ms = absl::ToInt64Milliseconds(*command.grace);
  }
  const WaitSignals signals;
  Answer answer{false, true};
  if (keeper.ok()) {
    kill(record.keeper.pid, SIGCONT);  // it may be stopped
    SendPacket(keeper->get(), Packet::kStop, StopText(order));
    answer = AwaitEnd(keeper->get(), grace + kAfterGrace, signals);
  }
  const std::optional<JobRecord> last =
      LastRecord(job, answer.closed ? kAnswer : absl::ZeroDuration(), signals);
  if (last.has_value()) {
    LogInfo(HowEnded(*last));
    return 0;
  }
  if (keeper.ok() && answer.closed && !answer.taken) {
    LogError(Crowded(record, "end some of them, then try again"));
    return kExitFailed;
  }
  LogError(absl::StrCat(
      record.id, " has not ended: ",
      keeper.ok() ? "it was asked to; 'launch ps' shows when it has" : keeper.status().message(),
      "; kill it with all its workers: ",
      command.now ? absl::StrCat("kill -9 ", record.keeper.pid)
                  : absl::StrCat(launch, " stop --now ", record.id)));
  return kExitFailed;
}

// Asks the launcher of the job for something, and waits for the answer; none = there was none, and
// the user knows why.
std::optional<OrderAnswer> Ask(const StoredJob& job, Packet kind, const std::string& text) {
  const absl::StatusOr<UniqueFd> keeper = Connect(job);
  if (!job.record.live() || !keeper.ok()) {
    LogError(job.record.live() ? keeper.status().message() : HowEnded(job.record));
    return std::nullopt;
  }
  SendPacket(keeper->get(), kind, text);
  const WaitSignals signals;
  const absl::Time until = BootNow() + kAnswer;
  for (bool closed = false; !closed && BootNow() < until && !WaitSignals::Pending();) {
    signals.Poll(keeper->get(), POLLIN, until - BootNow());
    while (const auto packet = ReceivePacket(keeper->get(), closed)) {
      if (auto answer = ParseAnswer(packet->text);
          packet->kind == Packet::kAnswer && answer.has_value()) {
        return answer;
      }
    }
  }
  LogError(absl::StrCat(job.record.id, " has not answered"));
  return std::nullopt;
}

int Show(const std::string& command, const OrderAnswer& answer) {
  answer.ok ? LogInfo(answer.text) : LogError(absl::StrCat("launch ", command, ": ", answer.text));
  return answer.ok ? 0 : kExitFailed;
}

int Chaos(const JobCommand& command, const StoredJob& job) {
  const auto answer = Ask(job, command.drill.master ? Packet::kKill : Packet::kDrill,
                          DrillText({command.length, command.words}));
  return answer.has_value() ? Show("chaos", *answer) : kExitFailed;
}

int Restart(const JobCommand& command, const StoredJob& job) {
  const auto answer = Ask(job, Packet::kRestart, "");
  if (!answer.has_value()) {
    return kExitFailed;
  }
  if (!command.json) {
    return Show("restart", *answer);
  }
  const int code = PrintAnswer(RestartJson(job.record, answer->ok, answer->text));
  return code != 0 ? code : answer->ok ? 0 : kExitFailed;
}

// As far as users of Slurm can tell: in a job of it, or where its commands are.
bool SlurmIsHere() {
  if (std::getenv("SLURM_JOB_ID") != nullptr) {
    return true;
  }
  const char* path = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (access(absl::StrCat(folder, "/squeue").c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

int RunJobCommand(const std::vector<std::string>& words, const std::string& launch) {
  const absl::StatusOr<JobCommand> command =
      ParseJobCommand(words, absl::Now(), absl::LocalTimeZone());
  if (!command.ok()) {
    LogError(command.status().message());
    return kExitUsage;
  }
  if (command->help) {
    return PrintAnswer(JobCommandHelp(command->kind));
  }
  signal(SIGPIPE, SIG_IGN);
  if (command->kind == JobCommand::Kind::kPs) {
    return Ps(*command, launch);
  }
  std::vector<StoredJob> jobs = ReadJobs(IsJobId(command->job) ? command->job : "");
  if (jobs.empty()) {
    jobs = ReadJobs();  // it may be another one's name
  }
  const std::vector<JobRecord> records = RecordsOf(jobs);
  const absl::StatusOr<size_t> found =
      !command->job.empty() ? FindJob(records, command->job)
                            : FindOnlyJob(records, command->kind == JobCommand::Kind::kChaos
                                                       ? " with --job"
                                                       : ": launch restart JOB");
  if (!found.ok()) {
    const bool stop = command->kind == JobCommand::Kind::kStop && absl::IsNotFound(found.status());
    LogError(absl::StrCat("launch ", words[0], ": ", found.status().message(),
                          StopOfSlurm(command->job, stop && SlurmIsHere())));
    return kExitUsage;
  }
  const StoredJob& job = jobs[*found];
  switch (command->kind) {
    case JobCommand::Kind::kAttach:
      return Attach(*command, job, launch);
    case JobCommand::Kind::kLogs:
      return Logs(*command, job, launch);
    case JobCommand::Kind::kRestart:
      return Restart(*command, job);
    case JobCommand::Kind::kChaos:
      return Chaos(*command, job);
    default:
      return Stop(*command, job, launch);
  }
}

}  // namespace muster
