#include "launcher/doctor/run_doctor.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "agent/io/node_facts.h"
#include "launcher/answer.h"
#include "launcher/doctor/diagnose.h"
#include "launcher/doctor/doctor_command.h"
#include "launcher/doctor/doctor_text.h"
#include "launcher/job_run.h"
#include "launcher/jobs/wait_signals.h"
#include "launcher/look_first.h"
#include "launcher/schedule/child_process.h"
#include "launcher/schedule/ssh_starter.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

// The job has a --timeout of its own; these end what would wait for one node in vain.
constexpr absl::Duration kStartWithin = absl::Seconds(100);
constexpr absl::Duration kFactsWithin = absl::Seconds(25);    // of the last node, after the first
constexpr absl::Duration kResultsWithin = absl::Seconds(45);  // after the plan
constexpr absl::Duration kEndWithin = absl::Seconds(10);
constexpr size_t kErrorLinesMax = 200;
constexpr size_t kLineMax = 4u << 20;  // of the job's output

double Unix() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

// The whole lines of a stream; the rest waits for the next call.
std::vector<std::string> TakeLines(std::string& text) {
  std::vector<std::string> out;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
    out.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  if (text.size() > kLineMax) {
    text.clear();
  }
  return out;
}

// The job of probes, and what was heard of it.
class ProbeSession {
 public:
  ProbeSession(Child child, const WaitSignals& signals)
      : child_(std::move(child)), signals_(signals) {}
  ~ProbeSession() { End(); }
  ProbeSession(const ProbeSession&) = delete;
  ProbeSession& operator=(const ProbeSession&) = delete;

  // By rank.
  const std::map<uint32_t, ExaminedNode>& nodes() const { return nodes_; }
  const std::vector<std::string>& errors() const { return errors_; }
  // What came through the job's output from this node's probe, or from what is in front of it, and
  // is nothing of a probe's: its first line; "" = nothing.
  std::string OutputOf(const std::string& name) const {
    const auto it = output_.find(name);
    return it == output_.end() ? "" : it->second;
  }
  int signo() const { return signo_; }

  // Until every probe of the job has said its facts.
  void AwaitFacts() {
    absl::Time deadline = BootNow() + kStartWithin;
    const auto all = [this] {
      return !nodes_.empty() && nodes_.size() >= nodes_.begin()->second.facts->world_size;
    };
    Listen([&] {
      if (!nodes_.empty()) {
        deadline = std::min(deadline, first_facts_ + kFactsWithin);
      }
      return all() ? absl::InfinitePast() : deadline;
    });
  }

  // Sends the plan, then waits for the results of all.
  void AwaitResults(const ProbePlan& plan) {
    for (auto& [rank, node] : nodes_) {
      node.plan_at = Unix();
    }
    Send(absl::StrCat(ToLine(plan), "\n"), BootNow() + kFactsWithin);
    const absl::Time deadline = BootNow() + kResultsWithin;
    Listen([&] {
      const bool all = std::all_of(nodes_.begin(), nodes_.end(),
                                   [](const auto& one) { return one.second.results.has_value(); });
      return all ? absl::InfinitePast() : deadline;
    });
  }

  // The probes see the end of their stdin, and go.
  void End() {
    if (child_.pid < 0) {
      return;
    }
    if (signo_ != 0) {
      kill(child_.pid, signo_);
    }
    shutdown(child_.channel.get(), SHUT_WR);
    const absl::Time deadline = BootNow() + kEndWithin;
    Listen([&] { return deadline; });
    if (!ended_) {
      kill(child_.pid, SIGKILL);
    }
    waitpid(child_.pid, nullptr, 0);
    child_.pid = -1;
  }

 private:
  // Takes what comes until the time that `until` says, the end of the job, or a signal.
  template <typename Until>
  void Listen(Until until) {
    while (!ended_) {
      const absl::Duration left = until() - BootNow();
      if (left <= absl::ZeroDuration()) {
        return;
      }
      pollfd fds[] = {{child_.channel.get(), POLLIN, 0},
                      {errors_open_ ? child_.errors.get() : -1, POLLIN, 0}};
      signals_.Poll(absl::MakeSpan(fds), left);
      if (const int signo = WaitSignals::Take(); signo != 0) {
        const bool again = signo_ != 0;
        signo_ = signo;
        if (!again) {
          return;
        }
        kill(child_.pid, signo);
      }
      if (fds[1].revents != 0) {
        errors_open_ = Read(child_.errors.get(), error_text_);
        TakeErrors();
      }
      if (fds[0].revents != 0) {
        ended_ = !Read(child_.channel.get(), text_);
        TakeOutput();
      }
    }
  }

  // False at the end.
  static bool Read(int fd, std::string& text) {
    char bytes[1 << 14];
    const ssize_t n = read(fd, bytes, sizeof(bytes));
    text.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void Send(absl::string_view text, absl::Time deadline) {
    while (!text.empty() && BootNow() < deadline && !WaitSignals::Pending()) {
      signals_.Poll(child_.channel.get(), POLLOUT, deadline - BootNow());
      const ssize_t n = send(child_.channel.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN && errno != EINTR) {
        return;  // it has ended, which its output says, too
      }
      text.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
    }
  }

  void TakeErrors() {
    for (std::string& line : TakeLines(error_text_)) {
      std::fprintf(stderr, "%s\n", line.c_str());  // launch's own words, as ever
      TakeJobLine(line, [this](const std::string& name, const std::string& said) {
        output_.try_emplace(name, said);
      });
      if (errors_.size() < kErrorLinesMax) {
        errors_.push_back(std::move(line));
      }
    }
  }

  void TakeOutput() {
    for (const std::string& line : TakeLines(text_)) {
      TakeJobLine(line, [this](const std::string& name, const std::string& said) {
        TakeProbeLine(name, said);
      });
    }
  }

  // Calls `take(name, said)` for a line of the job's workers.
  template <typename F>
  static void TakeJobLine(const std::string& line, F take) {
    const size_t space = line.find(' ');
    const size_t end = line.find(kProbePrefixEnd);
    if (space < end && end != std::string::npos) {
      take(line.substr(space + 1, end - space - 1),
           line.substr(end + std::strlen(kProbePrefixEnd)));
    }
  }

  void TakeProbeLine(const std::string& name, const std::string& line) {
    if (absl::StatusOr<ProbeFacts> facts = ParseProbeFacts(line); facts.ok()) {
      if (nodes_.empty()) {
        first_facts_ = BootNow();
      }
      ExaminedNode& node = nodes_[facts->rank];
      node.name = name;
      node.facts_at = Unix();
      node.facts = *std::move(facts);
    } else if (absl::StatusOr<ProbeResults> results = ParseProbeResults(line); results.ok()) {
      if (const auto it = nodes_.find(results->rank); it != nodes_.end()) {
        it->second.results_at = Unix();
        it->second.results = *std::move(results);
      }
    } else {
      output_.try_emplace(name, line);
    }
  }

  Child child_;
  const WaitSignals& signals_;
  std::map<uint32_t, ExaminedNode> nodes_;
  std::vector<std::string> errors_;
  std::map<std::string, std::string> output_;  // OutputOf
  std::string text_;                           // that is not a whole line yet
  std::string error_text_;                     // likewise
  absl::Time first_facts_;
  bool errors_open_ = true;
  bool ended_ = false;
  int signo_ = 0;
};

// For the job's launch; it is gone with this process.
absl::StatusOr<UniqueFd> HostFile(const std::string& text) {
  UniqueFd fd(memfd_create("hosts", MFD_CLOEXEC));
  if (!fd.valid() ||
      write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return absl::ResourceExhaustedError(absl::StrCat("hosts: ", std::strerror(errno)));
  }
  return fd;
}

ProbeRequest RequestOf(const DoctorCommand& command, const Environment& environment) {
  const JobSpec& spec = command.spec;
  ProbeRequest out;
  out.iface = spec.plan.iface;
  const auto other =
      std::find_if(spec.nodes.begin(), spec.nodes.end(),
                   [&](const NodeWorkers& node) { return !StartsHere(spec, node.host); });
  out.route_to = other == spec.nodes.end() ? "" : other->host.name;
  out.port_low = spec.plan.ports.low;
  out.port_high = spec.plan.ports.high;
  out.folder = spec.plan.wdir.empty() ? OwnFolder() : spec.plan.wdir;
  if (command.has_program) {
    out.argv = spec.plan.argv;
    out.program_file = spec.module ? "" : spec.program;
  } else {
    const auto python = environment.find("PYTHON_EXEC");
    const bool named = python != environment.end() && !python->second.empty();
    out.argv = {named ? python->second : "python3"};
  }
  return out;
}

ProbePlan PlanOf(const std::map<uint32_t, ExaminedNode>& nodes, std::string word) {
  ProbePlan plan;
  plan.word = std::move(word);
  for (const auto& [rank, node] : nodes) {
    plan.nodes.resize(rank + 1);  // a rank that is silent is not tried
    plan.nodes[rank] = {rank, node.name, node.facts->address, node.facts->port};
  }
  return plan;
}

// What launch, or the agent through it, said first about a node: "muster: node1: ssh ended with
// ..."; of the only one behind "muster: job NAME: ".
std::string WordsAbout(const std::string& name, const std::vector<std::string>& errors) {
  for (absl::string_view line : errors) {
    absl::ConsumePrefix(&line, "muster: ");
    if (absl::ConsumePrefix(&line, "job ") && absl::StrContains(line, ": ")) {
      line.remove_prefix(line.find(": ") + 2);
    }
    if (absl::ConsumePrefix(&line, name) && absl::ConsumePrefix(&line, ": ")) {
      return std::string(line);
    }
  }
  return "";
}

// `target`: as launch names it where it speaks of its start, which may have a user and a port.
ExaminedNode SilentNode(std::string name, const std::string& target, AgentStart start,
                        const ProbeSession& session) {
  ExaminedNode node;
  node.name = std::move(name);
  node.start = std::move(start);
  node.start.words = WordsAbout(target, session.errors());
  if (node.start.words.empty()) {
    node.start.words = session.OutputOf(node.name);
    node.start.succeeded = !node.start.words.empty();
  }
  return node;
}

Examination ExaminationOf(const JobSpec& spec, const ProbeSession& session,
                          const std::string& agent_path) {
  Examination out;
  out.several_machines = spec.way == StartWay::kHosts && spec.nodes.size() > 1;
  out.ports = spec.plan.ports;
  std::deque<ExaminedNode> silent;
  for (size_t i = 0; i < spec.nodes.size(); ++i) {
    const std::string name = spec.way == StartWay::kLocal   ? Hostname()
                             : spec.way == StartWay::kHosts ? spec.nodes[i].host.name
                                                            : absl::StrCat("node", i);
    const bool heard = std::any_of(session.nodes().begin(), session.nodes().end(),
                                   [&](const auto& one) { return one.second.name == name; });
    if (!heard) {
      const HostEntry& host = spec.nodes[i].host;
      const bool here = spec.way != StartWay::kHosts || StartsHere(spec, host);
      AgentStart start = StartOf(spec, host, here, agent_path);
      const std::string target = start.means == StartMeans::kSsh ? SshTarget(host) : name;
      silent.push_back(SilentNode(name, target, std::move(start), session));
    }
  }
  const auto next_silent = [&] {
    ExaminedNode node;
    if (!silent.empty()) {
      node = std::move(silent.front());
      silent.pop_front();
    }
    return node;
  };
  for (const auto& [rank, node] : session.nodes()) {
    while (out.nodes.size() < rank) {
      out.nodes.push_back(next_silent());
    }
    out.nodes.push_back(node);
  }
  out.in_plan = static_cast<uint32_t>(out.nodes.size());
  while (!silent.empty()) {
    out.nodes.push_back(next_silent());
  }
  return out;
}

std::vector<std::string> WithoutDefaults(std::vector<std::string> environment) {
  const auto is_default = [](const std::string& entry) { return absl::StartsWith(entry, "PET_"); };
  environment.erase(std::remove_if(environment.begin(), environment.end(), is_default),
                    environment.end());
  return environment;
}

absl::StatusOr<int> Examine(const DoctorCommand& command, const Environment& environment,
                            const std::string& agent_path) {
  ASSIGN_OR_RETURN(std::string word, MakeSecret());
  ASSIGN_OR_RETURN(const UniqueFd hosts, HostFile(DoctorHosts(command.spec)));
  std::vector<std::string> argv =
      ProbeJob(command.spec, agent_path, absl::StrCat("/proc/", getpid(), "/fd/", hosts.get()),
               ToLine(RequestOf(command, environment)));
  argv.insert(argv.begin(), "/proc/self/exe");
  const WaitSignals signals;  // before there is a child, which looks whether we mind them
  ASSIGN_OR_RETURN(Child child, SpawnChild(std::move(argv), WithoutDefaults(OwnEnvironment())));
  ProbeSession session(std::move(child), signals);
  session.AwaitFacts();
  if (session.signo() == 0 && !session.nodes().empty()) {
    session.AwaitResults(PlanOf(session.nodes(), std::move(word)));
  }
  session.End();
  if (session.signo() != 0) {
    return 128 + session.signo();
  }
  const Examination examined = ExaminationOf(command.spec, session, agent_path);
  const std::vector<DoctorRow> rows = Diagnose(examined);
  const std::string text =
      command.json ? DoctorJson(rows, examined) : DoctorTable(rows, ColourOnStdout());
  if (const int code = PrintAnswer(text); code != 0) {
    return code;
  }
  return AllWell(rows) ? 0 : kExitFailed;
}

}  // namespace

int RunDoctor(const std::vector<std::string>& words, const std::string& agent_path) {
  const Environment environment = PlaceEnvironment(/*ask=*/true);
  const absl::StatusOr<DoctorCommand> command =
      ParseDoctorCommand(words, environment, ReadJobFile, ReadHostFile);
  if (!command.ok()) {
    LogError(command.status().message());
    return kExitUsage;
  }
  if (command->help) {
    return PrintAnswer(DoctorHelp());
  }
  const absl::StatusOr<int> code = Examine(*command, environment, agent_path);
  if (!code.ok()) {
    LogError(code.status().message());
  }
  return code.value_or(kExitFailed);
}

}  // namespace muster
