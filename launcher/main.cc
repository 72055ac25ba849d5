// launch: reads the command line, finds the way to start, runs the job, ends with its exit code.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/node_facts.h"
#include "launcher/answer.h"
#include "launcher/batch_notice.h"
#include "launcher/batch_shell.h"
#include "launcher/doctor/doctor_command.h"
#include "launcher/doctor/run_doctor.h"
#include "launcher/first_node.h"
#include "launcher/help.h"
#include "launcher/job_run.h"
#include "launcher/jobs/detach.h"
#include "launcher/jobs/job_command.h"
#include "launcher/jobs/run_job_command.h"
#include "launcher/look_first.h"
#include "launcher/meeting_notes.h"
#include "launcher/mpir.h"
#include "launcher/node_overrides.h"
#include "launcher/options.h"
#include "launcher/resolve.h"
#include "launcher/run_hosts.h"
#include "launcher/run_local.h"
#include "launcher/run_typed.h"
#include "launcher/schedule/child_process.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/pbs.h"
#include "launcher/scheduler.h"
#include "launcher/ship/ship_files.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/sweep_command.h"
#include "launcher/torchrun_words.h"
#include "launcher/user_terminal.h"
#include "proto/base/build_info.h"
#include "proto/base/core_limit.h"
#include "proto/base/heap.h"
#include "proto/base/log.h"
#include "proto/base/signal_mask.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// muster-agent lies beside this program.
std::string AgentPath() {
  char self[4096];
  const ssize_t size = readlink("/proc/self/exe", self, sizeof(self));
  const std::string path(self, size > 0 ? static_cast<size_t>(size) : 0);
  return absl::StrCat(path.substr(0, path.rfind('/')), "/muster-agent");
}

// How another node can call this program: by name if the shell found it so, else by its full path.
std::string LaunchPath(const std::string& typed) {
  if (typed.find('/') == std::string::npos && !CalledTorchrun(typed)) {
    return typed;  // `torchrun` may be torch's own there
  }
  const std::string agent = AgentPath();
  return absl::StrCat(agent.substr(0, agent.rfind('/')), "/launch");
}

// A caller may have closed some of them (`cmd <&-`): the numbers must not go to files or pipes of
// ours. What is written to a standard output that was closed is lost, and the write says so. Runs
// before static constructors: one of gRPC's opens an eventfd.
[[gnu::constructor(101), gnu::used]] void OpenStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) {  // the lowest one that is free
      (void)open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
    }
  }
}

// The user of a PBS batch script thinks of the folder where it was handed in; PBS begins it in
// $HOME.
void GoWhereSubmitted(const Environment& environment, JobSpec& spec) {
  const std::string folder = SubmitFolder(environment);
  const auto home = environment.find("HOME");
  std::error_code error;  // what is not there is not the same
  if (folder.empty() || home == environment.end() ||
      !std::filesystem::equivalent(".", home->second, error) ||
      !std::filesystem::is_directory(folder, error) ||
      std::filesystem::equivalent(".", folder, error)) {
    return;
  }
  const bool says_all = !spec.plan.wdir.empty() &&
                        std::none_of(spec.plan.further.begin(), spec.plan.further.end(),
                                     [](const FurtherProgram& one) { return one.wdir.empty(); });
  if (says_all) {
    return;
  }
  for (FurtherProgram& program : spec.plan.further) {
    program.wdir = program.wdir.empty() ? folder : program.wdir;
  }
  spec.plan.wdir = spec.plan.wdir.empty() ? folder : spec.plan.wdir;
  spec.notes.push_back(absl::StrCat("the workers run in ", folder, ", where the job was handed in ",
                                    "(PBS_O_WORKDIR); cd elsewhere or --wdir says otherwise"));
}

// A job of one node in a batch script: Slurm signals steps, and leaves time to end to them alone.
// What has replaced the script's shell (exec) needs none, as Slurm's SIGTERM goes to it.
void SettleLoneStep(JobSpec& spec) {
  if (!spec.slurm.has_value() || !spec.slurm->in_script || !spec.given_hosts.has_value() ||
      spec.nodes.size() != 1) {
    return;
  }
  const std::vector<ProcessStatus> ancestors = Ancestors();
  const std::optional<ProcessStatus> shell = ShellOfSlurm(ancestors);
  spec.slurm->lone_step = shell.has_value() && OnlyShellsBetween(ancestors, *shell) &&
                          HasProgram(StepProgram(Scheduler::kSlurm)) &&
                          StepSeesTheSame(*shell, spec.command_line);
}

// What the user may want to know of the end of the Slurm job that we are in.
void TellSlurm(const JobSpec& spec) {
  if (!spec.slurm.has_value()) {
    return;
  }
  if (spec.slurm->ends != absl::InfiniteFuture()) {
    LogDebug(
        absl::StrCat(spec.slurm->name, " ends in ", ShortDuration(spec.slurm->ends - absl::Now())));
  }
}

int Run(JobSpec spec) {
  if (spec.plan.pty.has_value()) {
    const OptionId asked = spec.debugger.empty() ? OptionId::kPty : OptionId::kGdb;
    if (const absl::Status terminal = UserTerminal::Look(spec.Said(asked), *spec.plan.pty);
        !terminal.ok()) {
      LogError(terminal.message());
      return kExitUsage;
    }
  }
  if (const absl::Status report = CheckReportFile(spec.report_file); !report.ok()) {
    LogError(report.message());
    return kExitUsage;
  }
  spec.plan.tell_pids = MpirWanted() || !spec.proctable_file.empty();
  // Where it is typed on every node, the others have not heard of a debugger.
  spec.plan.hold = MpirWanted() && spec.way != StartWay::kTyped && spec.way != StartWay::kServe;
  for (const std::string& note : spec.notes) {
    LogInfo(note);
  }
  TellEarlierLogs(spec);
  TellSlurm(spec);
  TellOfBatchShell(spec);
  switch (spec.way) {
    case StartWay::kLocal:
      return RunLocal(std::move(spec));
    case StartWay::kStandalone:
    case StartWay::kHosts:
      return RunHosts(std::move(spec), AgentPath());
    case StartWay::kTyped:
    case StartWay::kServe:
      return RunTyped(std::move(spec));
  }
  return kExitFailed;
}

// `typed`: how launch was called; `notes`: what is to be said before those of the job itself.
int RunCommandLine(const std::vector<std::string>& arguments, const std::string& typed,
                   const std::vector<std::string>& notes) {
  const bool typed_elsewhere = TakeTypedPlace();
  absl::StatusOr<ParsedCommand> command =
      ParseCommandLine(arguments, EnvironmentMap(OwnEnvironment()), ReadJobFile);
  if (!command.ok()) {
    LogError(command.status().message());
    return kExitUsage;
  }
  switch (command->action) {
    case CommandAction::kHelp:
      return PrintAnswer(HelpText(/*all=*/false, ColourOnStdout()));
    case CommandAction::kHelpAll:
      return PrintAnswer(HelpText(/*all=*/true, ColourOnStdout()));
    case CommandAction::kVersion:
      return PrintAnswer(VersionText());
    case CommandAction::kRun:
      break;
  }
  JobSpec spec = std::move(command->spec);
  if (spec.quiet || spec.verbose) {
    SetLogLevel(spec.quiet ? LogLevel::kError : LogLevel::kDebug);
  }
  spec.launch_path = LaunchPath(typed);
  spec.command_line = arguments;
  spec.notes.insert(spec.notes.begin(), notes.begin(), notes.end());
  const Environment environment = PlaceEnvironment(/*ask=*/!SaysWhere(spec));
  const absl::Status resolved = ResolveHosts(spec, ReadHostFile, environment);
  if (!resolved.ok()) {
    if (!absl::IsAlreadyExists(resolved)) {  // said by the first task of the step
      LogError(resolved.message());
    }
    return kExitUsage;
  }
  if (const absl::Status named = CheckOwnName(spec, Hostname()); !named.ok()) {
    LogError(named.message());
    return kExitUsage;
  }
  NoteUnusedEndpoint(spec, [](const std::string& host) {
    return IsThisMachine(host) || IsLoopback(host) || IsSameHost(host, Hostname());
  });
  GoWhereSubmitted(environment, spec);
  SettleLoneStep(spec);
  if (typed_elsewhere) {
    spec.notes.clear();  // said there
  }
  const absl::StatusOr<ShipScan> shipped = ScanShip(spec.ship);
  if (!shipped.ok()) {
    LogError(shipped.status().message());
    return kExitUsage;
  }
  spec.ship_bytes = shipped->bytes;
  spec.ship_entries = shipped->sources.size();
  if (spec.plan_only) {
    return ShowPlan(spec, AgentPath());
  }
  if (spec.explain_env.has_value()) {
    return ShowEnvironment(spec);
  }
  return spec.detach ? RunDetached(std::move(spec), Run) : Run(std::move(spec));
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (CalledTorchrun(argv[0])) {
    const absl::StatusOr<TorchrunWords> told =
        FromTorchrun(arguments, EnvironmentMap(OwnEnvironment()));
    if (!told.ok()) {
      LogError(told.status().message());
      return kExitUsage;
    }
    return RunCommandLine(told->words, argv[0], told->notes);
  }
  if (!arguments.empty() && IsJobCommand(arguments[0])) {
    return RunJobCommand(arguments, LaunchPath(argv[0]));
  }
  if (!arguments.empty() && IsDoctorCommand(arguments[0])) {
    return RunDoctor(arguments, AgentPath());
  }
  if (!arguments.empty() && IsSweepCommand(arguments[0])) {
    return RunSweep(arguments);
  }
  return RunCommandLine(arguments, argv[0], {});
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::HearAllSignals();
  muster::HoldStopsIfFirst();
  muster::WriteNoCores();
  muster::KeepFreedMemory();
  muster::SetLogLevelFromEnvironment();
  const int code = muster::Main(argc, argv);
  std::fflush(nullptr);
  _exit(code);  // without the static destructors of gRPC, which take longer than a job of one
                // /bin/true
}
