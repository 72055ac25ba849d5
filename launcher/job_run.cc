#include "launcher/job_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/env_filter.h"
#include "agent/io/node_facts.h"
#include "agent/probe/machine_facts.h"
#include "agent/probe/node_checks.h"
#include "launcher/exit_rules.h"
#include "launcher/jobs/drill_words.h"
#include "launcher/jobs/job_folder.h"
#include "launcher/programs.h"
#include "launcher/report.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/await_fd.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/log_waiting.h"
#include "proto/base/shared_fd.h"
#include "proto/base/text.h"
#include "proto/base/unique_fd.h"
#include "rendezvous/service/master_server.h"

namespace muster {
namespace {

// Less than a lease: the master may be who waits.
constexpr absl::Duration kReaderWithin = absl::Seconds(3);

// Of the job in its lives before.
std::vector<std::string> HistoryBefore(const JobSpec& spec) {
  return spec.life.has_value() ? spec.life->history : std::vector<std::string>();
}

std::string EndedWellBut(const std::string& lost) {
  return absl::StrCat("ended well, but some of its output is lost: ", lost);
}

// Our standard output or error, where that goes to this file.
std::optional<int> IsOurs(const struct stat& file) {
  for (const int ours : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat our {};
    if (fstat(ours, &our) == 0 && our.st_dev == file.st_dev && our.st_ino == file.st_ino) {
      return ours;
    }
  }
  return std::nullopt;
}

// "-" is our standard output; so is a file that it goes to (/dev/stdout), and the same of standard
// error: what stands there already is kept. Invalid with errno.
UniqueFd OpenToReplace(const std::string& path, mode_t mode) {
  if (path == "-") {
    return UniqueFd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  }
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, mode));
  struct stat there {};
  if (!fd.valid() || fstat(fd.get(), &there) != 0 || !S_ISREG(there.st_mode)) {
    return fd;
  }
  if (const std::optional<int> ours = IsOurs(there); ours.has_value()) {
    return UniqueFd(fcntl(*ours, F_DUPFD_CLOEXEC, 0));
  }
  return ftruncate(fd.get(), 0) == 0 ? std::move(fd) : UniqueFd();
}

// What is written of a file whose rest could not be; what our standard output or error goes to
// keeps what it has.
void RemoveHalf(const std::string& path, int fd) {
  struct stat half {};
  struct stat named {};
  if (path == "-" || fstat(fd, &half) != 0 || !S_ISREG(half.st_mode) || IsOurs(half)) {
    return;
  }
  const bool is_it = lstat(path.c_str(), &named) == 0 && named.st_dev == half.st_dev &&
                     named.st_ino == half.st_ino;
  if (!is_it || unlink(path.c_str()) != 0) {
    (void)!ftruncate(fd, 0);
  }
}

// Without making it: an empty file would look like a report. False with errno.
bool CanWrite(const std::string& path) {
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) {
    errno = EISDIR;
    return false;
  }
  if (access(path.c_str(), W_OK) == 0) {
    return true;
  }
  if (errno != ENOENT) {
    return false;
  }
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  return access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

JobTerms TermsOf(const JobSpec& spec) {
  JobTerms terms;
  terms.nodes_min = spec.nodes_min;
  terms.nodes_max = spec.nodes_max;
  terms.spares = spec.spares;
  terms.lease = spec.lease;
  terms.restarts_max = spec.max_restarts;
  terms.restart = spec.restart;
  terms.restart_rules = spec.restart_rules;
  terms.on_failure = spec.on_failure;
  terms.join_timeout = spec.rendezvous.join_timeout;
  terms.last_call = spec.rendezvous.last_call;
  terms.grace = spec.plan.grace;
  terms.restart_grace = spec.restart_grace;
  terms.time_limit = spec.timeout;
  // Who sits at a worker's terminal is not told that it waits.
  terms.tell_idle = spec.plan.pty.has_value() && !spec.Has(OptionId::kTellOfIdle)
                        ? absl::InfiniteDuration()
                        : spec.tell_idle;
  terms.master_port = spec.master_port.value_or(0);
  terms.master_addr = spec.rendezvous.is_static ? "" : spec.master_addr;
  return terms;
}

std::vector<std::pair<std::string, std::string>> MustAgree(const JobSpec& spec) {
  std::vector<std::pair<std::string, std::string>> out = {
      {"--nnodes", spec.nodes_min == spec.nodes_max
                       ? absl::StrCat(spec.nodes_max)
                       : absl::StrCat(spec.nodes_min, ":", spec.nodes_max)},
      {"--spares", spec.spares.has_value() ? absl::StrCat(*spec.spares) : ""},
      {"--lease", spec.lease.has_value() ? ShortDuration(*spec.lease) : ""},
      {"--max-restarts", absl::StrCat(spec.max_restarts)},
      {"--restart", std::string(RestartModeName(spec.restart))},
      {"--on-failure", std::string(OnFailureName(spec.on_failure))},
      {"program", DescribePrograms(spec)}};
  for (auto& rule : RestartRulesTexts(spec.restart_rules)) {
    out.push_back(std::move(rule));
  }
  return out;
}

// MUSTER_ROUND grows also where Slurm runs the job again.
uint32_t EpochOf(const JobSpec& spec) {
  return 1 + (spec.slurm.has_value() ? spec.slurm->restarts : 0);
}

RoundConfig ConfigOf(const JobSpec& spec) {
  RoundConfig config = ConfigFromTerms(spec.plan.job_id, TermsOf(spec));
  config.epoch = EpochOf(spec);
  config.refused_is_final = !spec.rendezvous.step.empty();  // srun starts each task once
  config.sigterm_told = StopCause(spec, SIGTERM, StopBy::kSignal, absl::InfinitePast());
  for (size_t i = 0; i < spec.nodes.size(); ++i) {
    const std::string& name = spec.nodes[i].host.name;
    config.expected.push_back(name.empty() ? absl::StrCat("node", i) : name);
  }
  return config;
}

std::string ListName(const JobSpec& spec, size_t index) {
  const bool named = spec.way != StartWay::kStandalone && index < spec.nodes.size();
  return named ? spec.nodes[index].host.name : absl::StrCat("node", index);
}

bool IsHere(const JobSpec& spec, const HostEntry& host) {
  return spec.way == StartWay::kStandalone ||
         (spec.given_hosts.has_value() &&
          (spec.given_hosts->scheduler == Scheduler::kPbs ? IsSameHost(host.name, Hostname())
                                                          : spec.given_hosts->here == host.name)) ||
         (host.user.empty() && host.port == 0 && IsThisMachine(host.name));
}

bool InLoneStep(const JobSpec& spec) {
  return spec.given_hosts.has_value() && spec.slurm.has_value() && spec.slurm->in_script &&
         spec.slurm->lone_step && spec.nodes.size() == 1 && IsHere(spec, spec.nodes.front().host);
}

bool StartsHere(const JobSpec& spec, const HostEntry& host) {
  const bool in_step = spec.given_hosts.has_value() && spec.slurm.has_value() &&
                       spec.slurm->in_script && spec.nodes.size() > 1;
  return !in_step && !InLoneStep(spec) && IsHere(spec, host);
}

absl::Duration GraceNow(const JobSpec& spec) {
  return !spec.slurm.has_value() || spec.Has(OptionId::kStopGrace)
             ? spec.plan.grace
             : SlurmGrace(*spec.slurm, absl::Now());
}

absl::Duration TimeToStop(const JobSpec& spec) {
  const absl::Duration grace = GraceNow(spec);
  return spec.slurm.has_value() ? LeftOfGrace(grace, *spec.slurm, absl::Now()) : grace;
}

StopAsked StopOf(const JobSpec& spec, const StopWish& wish) {
  return {wish.signo, wish.now, std::min(wish.grace, GraceNow(spec)),
          StopCause(spec, wish.signo, wish.by, absl::Now())};
}

bool ManyWorkers(const JobSpec& spec) {
  return spec.nodes.size() > 1 ||
         std::any_of(spec.nodes.begin(), spec.nodes.end(), [](const NodeWorkers& node) {
           return node.wanted != WorkersWanted::kNumber || node.workers > 1;
         });
}

void FinishOutputOptions(const JobSpec& spec, bool many_workers, WorkPlan& plan) {
  OutputOptions& output = plan.output;
  output.prefix = spec.prefix.value_or(many_workers);
  // Of one worker nothing stands between its bytes: whoever reads them may wait for a prompt.
  const bool is_as_written = !many_workers && !output.prefix && !output.timestamps;
  output.partial_out = is_as_written || isatty(STDOUT_FILENO) != 0;
  output.partial_err = is_as_written || isatty(STDERR_FILENO) != 0;
}

void RunInOwnFolder(WorkPlan& plan) {
  plan.wdir = plan.wdir.empty() ? OwnFolder() : plan.wdir;
  for (FurtherProgram& program : plan.further) {
    program.wdir = program.wdir.empty() ? OwnFolder() : program.wdir;
  }
}

void LogRound(const RoundStarted& round) {
  LogDebug(absl::StrCat("round ", round.round.n,
                        " starts: ", Plural(round.world_size, "worker", "workers"), " on ",
                        Plural(round.nodes, "node", "nodes")));
}

void TellAnswer(const JobSpec& spec, const OrderAnswered& answered) {
  SendPacket(spec.keeper_fd, Packet::kAnswer,
             NumberedText({answered.ask, AnswerText({answered.ok, answered.text})}));
}

std::function<void(uint64_t ask, const DrillWords& words)> DrillCallback(
    const JobSpec& spec, std::function<void(RoundEvent)> post) {
  return [&spec, post = std::move(post)](uint64_t ask, const DrillWords& words) {
    absl::StatusOr<DrillSpec> drill = ParseDrill(words.words, words.length);
    if (!drill.ok()) {  // another version's
      return TellAnswer(spec, {ask, false, std::string(drill.status().message())});
    }
    const bool between_nodes = drill->kind == DrillKind::kCut || drill->kind == DrillKind::kSlow;
    if (between_nodes && !drill->master && spec.way == StartWay::kLocal) {
      return TellAnswer(spec, {ask, false,
                               "cut and slow are about the network between nodes, and this job "
                               "has one: --standalone --nnodes 2 makes two nodes of a machine"});
    }
    DrillAsked asked;
    asked.ask = ask;
    asked.drill.kind = drill->kind;
    asked.drill.delay = drill->delay;
    asked.drill.length = drill->length;
    asked.target = std::move(drill->target);
    post(std::move(asked));
  };
}

void TellStarted(const JobSpec& spec, uint32_t world_size, uint32_t nodes) {
  if (spec.keeper_fd >= 0) {
    SendPacket(spec.keeper_fd, Packet::kStarted, absl::StrCat(world_size, " ", nodes));
  }
}

absl::Status WriteWhole(const std::string& path, const std::string& text, mode_t mode) {
  UniqueFd fd = OpenToReplace(path, mode);
  if (!fd.valid()) {
    return errno == ENXIO ? absl::UnavailableError("nobody reads this pipe: start its reader first")
                          : absl::UnknownError(std::strerror(errno));
  }
  const absl::Time until = BootNow() + kReaderWithin;
  for (absl::string_view left = text; !left.empty();) {
    const std::optional<size_t> taken = TryWriteShared(fd.get(), left);
    if (!taken.has_value()) {
      absl::Status why = absl::UnknownError(std::strerror(errno));
      RemoveHalf(path, fd.get());
      return why;
    }
    left.remove_prefix(*taken);
    if (*taken == 0 && !AwaitFd(fd.get(), POLLOUT, until, "room in the pipe").ok()) {
      return absl::UnavailableError(absl::StrCat("who reads this pipe has taken ",
                                                 text.size() - left.size(), " of ", text.size(),
                                                 " bytes in ", ShortDuration(kReaderWithin)));
    }
  }
  const UniqueFd same(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (close(fd.Release()) != 0) {  // a file system over a network may say so only now
    absl::Status why = absl::UnknownError(std::strerror(errno));
    RemoveHalf(path, same.get());
    return why;
  }
  return absl::OkStatus();
}

void TellEarlierLogs(const JobSpec& spec) {
  const OutputOptions& output = spec.plan.output;
  const bool is_named = spec.Has(OptionId::kRdzvId) && !output.log_dir.empty() &&
                        output.log_layout == LogLayout::kMuster;
  const bool by_others = spec.way == StartWay::kTyped && !spec.serve;  // may have begun this one
  const std::string folder = absl::StrCat(output.log_dir, "/", spec.rendezvous.id);
  if (is_named && !by_others && access(folder.c_str(), F_OK) == 0) {
    LogInfo(absl::StrCat(folder, " is of an earlier job: this one's lines go behind those in its ",
                         "files (another ", spec.Said(OptionId::kRdzvId),
                         ", or none, gives it a folder of its own)"));
  }
}

absl::Status CheckReportFile(const std::string& path) {
  if (path.empty() || path == "-" || CanWrite(path)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("--report ", path, ": ", std::strerror(errno),
                                                    ": no worker was started; give a file that "
                                                    "can be written"));
}

JobLife LifeOf(const JobSpec& spec, const RoundState& state) {
  JobLife out;
  out.round = state.round.ToString();
  for (const Member& member : state.members) {
    const Join& join = state.nodes.at(member.node).join;
    const auto place = static_cast<size_t>(std::max(join.node_rank, 0));
    const bool listed = join.node_rank >= 0 && place < spec.life->hosts.size();
    out.hosts.push_back(!spec.nodes.empty() ? ListName(spec, place)
                        : listed            ? spec.life->hosts[place]
                                            : join.hostname);
  }
  out.history = spec.life->history;
  out.history.insert(out.history.end(), state.report.history.begin(), state.report.history.end());
  return out;
}

bool IsLast(CauseKind cause) { return cause != CauseKind::kUser && cause != CauseKind::kNodeLost; }

std::vector<std::string> EnvironmentForOthers(const JobSpec& spec) {
  const bool by_pbs = spec.pbs.has_value() && spec.given_hosts.has_value();
  return EnvironmentToForward(OwnEnvironment(), spec.plan,
                              by_pbs || spec.env_all ? Forwarded::kAll : Forwarded::kSettings);
}

std::string OwnPythonDir() {
  char self[4096];
  const ssize_t size = readlink("/proc/self/exe", self, sizeof(self));
  absl::string_view path(self, size > 0 ? static_cast<size_t>(size) : 0);
  for (int up = 0; up < 2; ++up) {  // launch, bin
    path = path.substr(0, path.rfind('/'));
  }
  for (const char* const place : {"/lib/python3/dist-packages", "/python"}) {
    std::string dir = absl::StrCat(path, place);
    if (access(absl::StrCat(dir, "/muster/__init__.py").c_str(), R_OK) == 0) {
      return dir;
    }
  }
  return "";
}

void ShowPage(absl::string_view page, const JobReport& report) {
  SetLogWaits();                           // what waits comes first
  (void)WriteShared(STDERR_FILENO, page);  // perhaps nobody is there to read it
  const char* const path = std::getenv("TORCHELASTIC_ERROR_FILE");
  const std::string text = CallersErrorText(report, absl::Now());
  if (path == nullptr || *path == '\0' || text.empty()) {
    return;
  }
  if (const absl::Status written = WriteWhole(path, text, 0666); !written.ok()) {
    LogWarning(absl::StrCat("TORCHELASTIC_ERROR_FILE=", path, ": ", written.message(),
                            ": who started launch does not learn there what the first cause was"));
  }
}

std::string WhatSrunAwaits(const JobSpec& spec, const JobReport& report) {
  if (spec.rendezvous.step.empty() || !spec.slurm.has_value() ||
      report.cause != CauseKind::kNodeLost || report.lost_node.empty()) {
    return "";
  }
  return absl::StrCat("srun waits for ", report.lost_node, " until Slurm itself finds it down ",
                      "(SlurmdTimeout); scancel ", spec.slurm->id, " ends the job at once");
}

void WriteReport(const JobSpec& spec, const std::string& job_id, JobReport& report) {
  if (spec.report_file.empty()) {
    return;
  }
  const absl::Status written =
      WriteWhole(spec.report_file, ReportJson(report, job_id, HistoryBefore(spec)), 0666);
  if (written.ok()) {
    return;
  }
  const std::string why = absl::StrCat("--report ", spec.report_file, ": ", written.message());
  if (report.exit_code != 0 || absl::IsUnavailable(written)) {  // a reader chose not to know
    return LogError(why);
  }
  report.exit_code = kExitFailed;
  report.headline = absl::StrCat("ended well, but its report is lost: ", why);
  LogError(absl::StrCat("the job ", report.headline));
}

int ShowReport(const JobSpec& spec, const std::string& job_id, JobReport report) {
  report.requeued = spec.slurm.has_value() ? spec.slurm->restarts : 0;
  const std::vector<std::string> before = HistoryBefore(spec);
  const std::string text = absl::StrCat(ReportText(report, job_id, before, OwnPythonDir()),
                                        spec.report_state ? StateText(report) : "",
                                        spec.advise ? AdviceText(report) : "");
  ShowPage(text, report);
  WriteReport(spec, job_id, report);
  if (const std::string waits = WhatSrunAwaits(spec, report); !waits.empty()) {
    LogInfo(waits);
  }
  if (spec.keeper_fd >= 0) {
    SendPacket(spec.keeper_fd, Packet::kText, text);
    const std::string path = absl::StrCat(spec.job_folder, "/", kReportFile);
    const absl::Status written = WriteWhole(path, ReportJson(report, job_id, before), 0600);
    if (!written.ok()) {
      LogWarning(absl::StrCat(path, ": ", written.message()));
    }
  }
  return report.exit_code;
}

int ExitCodeAsShown(int exit_code, bool nobody_reads, const std::string& lost) {
  const bool first = exit_code == 0 || exit_code == 128 + SIGTERM;  // which our own stop leaves
  return nobody_reads && first             ? kExitNobodyReads
         : exit_code == 0 && !lost.empty() ? kExitFailed
                                           : exit_code;
}

int TellExitCodeAsShown(int exit_code, bool nobody_reads, const std::string& lost) {
  if (exit_code == 0 && !nobody_reads && !lost.empty()) {
    LogError(absl::StrCat("the job ", EndedWellBut(lost)));
  }
  return ExitCodeAsShown(exit_code, nobody_reads, lost);
}

JobReport AsShown(JobReport report, const Display& display, bool stop_asked) {
  const std::string lost = display.lost();
  const bool nobody_reads = display.nobody_reads() && !stop_asked;
  const int code = ExitCodeAsShown(report.exit_code, nobody_reads, lost);
  if (nobody_reads && code == kExitNobodyReads) {
    report.headline = "stopped, because nobody reads its output any more (stdout was closed)";
  } else if (report.exit_code == 0 && !lost.empty()) {
    report.headline = EndedWellBut(lost);
  }
  report.exit_code = code;
  return report;
}

}  // namespace muster
