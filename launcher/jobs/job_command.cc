#include "launcher/jobs/job_command.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "launcher/jobs/since.h"
#include "launcher/option_values.h"
#include "proto/base/passed_signals.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

using Kind = JobCommand::Kind;

struct CommandRow {
  absl::string_view name;
  absl::string_view options;  // each between blanks; "=" after those that take a value
  absl::string_view help;
};

// In the order of Kind.
constexpr CommandRow kCommands[] = {
    {"ps", " -a --all --json ",
     "launch ps [-a] [--json] [JOB]    your detached jobs on this host\n"
     "  JOB              only those of this id, beginning of an id, or name, ended or not\n"
     "  -a, --all        also those that have ended\n"
     "  --json           as JSON\n"},
    {"attach", " -n= --lines= --tail= --since= ",
     "launch attach [-n N] [--since WHEN] JOB    show a detached job's output until it ends\n"
     "  JOB              its id, the beginning of that, or its name\n"
     "  -n, --lines N, --tail N    the last N lines first (all: all of them)\n"
     "  --since WHEN     first what it has printed since then\n"
     "Ctrl-C asks whether to detach (the job goes on) or to stop it; a second one detaches, as "
     "does\n"
     "the first where there is no terminal to ask at. Exit status: the job's.\n"},
    {"logs", " -f --follow -n= --lines= --tail= --since= ",
     "launch logs [-f] [-n N] [--since WHEN] JOB    what a detached job has printed\n"
     "  JOB              its id, the beginning of that, or its name; also one that has ended\n"
     "  -f, --follow     go on until it ends\n"
     "  -n, --lines N, --tail N    only the last N lines (all: all of them)\n"
     "  --since WHEN     only what was printed since then\n"},
    {"stop", " --signal= -s= --grace= --now ",
     "launch stop [--signal S] [--grace TIME] [--now] JOB    stop a detached job, as Ctrl-C would\n"
     "  JOB              its id, the beginning of that, or its name\n"
     "  -s, --signal S   what the workers get: INT (default), TERM, HUP or QUIT\n"
     "  --grace TIME     kill after this (default: the job's own --grace; at most that)\n"
     "  --now            kill at once\n"
     "Waits for the end. Exit status: 0 when nothing of the job runs any more.\n"},
    {"restart", " --json ",
     "launch restart [--json] [JOB]    start all workers of a detached job again\n"
     "  JOB              its id, the beginning of that, or its name (default: the only one)\n"
     "  --json           the answer as JSON\n"
     "They are stopped as before any restart (--restart-grace), and a new round follows. It is "
     "free\n"
     "of charge: --max-restarts and the other budgets do not count it, and --restart=never does "
     "not\n"
     "forbid it. Where the job's master is elsewhere (--rdzv-endpoint) it is asked. Exit status: "
     "0\n"
     "when it is on its way.\n"},
    {"chaos", " --for= --job= ",
     "launch chaos [--for TIME] [--job JOB] WHAT    break a part of a detached job, as a drill\n"
     "  kill rank R      SIGKILL to that worker\n"
     "  kill NODE        SIGKILL to the node's agent and all its workers, as a power cut\n"
     "  kill master      SIGKILL to the launcher that serves the job\n"
     "  freeze NODE      the agent and its workers stand still, for TIME\n"
     "  cut NODE         nothing goes between the node and the others, for TIME\n"
     "  slow NODE DELAY  all between them arrives so much later, for TIME\n"
     "  NODE             its host name, or its node rank\n"
     "  --for TIME       then all is as before (default: 10s; at most 1h)\n"
     "  --job JOB        its id, the beginning of that, or its name (default: the only one)\n"
     "cut and slow act on the connections that are ours: of the node's agent with the master,\n"
     "and of its workers with those of other nodes, by the SDK or torch's back end muster.\n"
     "What workers print is not held up, nor what they say over gloo, NCCL, MPI or torch's store.\n"
     "Of a job typed on every node: where it is served; the agent there is the master, too.\n"
     "Needs no root. Exit status: 0 when it is on its way.\n"},
};

constexpr absl::string_view kWhen =
    "WHEN is a time back from now (90s, 10m, 1h30m, 2d), a moment (14:30, 2026-11-22,\n"
    "'2026-11-22 14:30:05', or as 'date -Iseconds' prints it), or start.\n";

const CommandRow& RowOf(Kind kind) { return kCommands[static_cast<size_t>(kind)]; }

absl::Status Set(absl::string_view name, const std::string& text, absl::Time now,
                 absl::TimeZone zone, JobCommand& out) {
  const OptionValue value{name, text};
  if (name == "-a" || name == "--all") {
    out.all = true;
  } else if (name == "--json") {
    out.json = true;
  } else if (name == "-f" || name == "--follow") {
    out.follow = true;
  } else if (name == "--now") {
    out.now = true;
  } else if (name == "-n" || name == "--lines" || name == "--tail") {
    uint64_t lines = std::numeric_limits<uint64_t>::max();
    if (text != "all" && !absl::SimpleAtoi(text, &lines)) {
      return WantError(value, "a number of lines, or all");
    }
    out.lines = lines;
  } else if (name == "--since") {
    ASSIGN_OR_RETURN(out.since, ParseSince(value, now, zone));
  } else if (name == "--job") {
    out.job = text;
  } else if (name == "--for") {
    ASSIGN_OR_RETURN(out.length, ParseTime(value));
    if (out.length <= absl::ZeroDuration() || out.length > kDrillLengthMax) {
      return WantError(value, kDrillTimes);
    }
  } else if (name == "--grace") {
    ASSIGN_OR_RETURN(out.grace, ParseTime(value));
  } else {
    out.signal = SignalNumber(text);
    if (!AlwaysStops(out.signal)) {
      return WantError(value, "INT, TERM, HUP or QUIT");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsJobCommand(absl::string_view word) {
  for (const CommandRow& row : kCommands) {
    if (row.name == word) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<JobCommand> ParseJobCommand(const std::vector<std::string>& words, absl::Time now,
                                           absl::TimeZone zone) {
  JobCommand out;
  while (RowOf(out.kind).name != words.at(0)) {
    out.kind = static_cast<Kind>(static_cast<uint8_t>(out.kind) + 1);
  }
  const CommandRow& row = RowOf(out.kind);
  const std::string hint = absl::StrCat("('launch ", row.name, " --help' says more)");
  bool options = true;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (options && word == "--") {
      options = false;
    } else if (options && (word == "-h" || word == "--help")) {
      out.help = true;
      return out;
    } else if (options && word.size() > 1 && word[0] == '-') {
      const size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const bool flag = absl::StrContains(row.options, absl::StrCat(" ", name, " "));
      if (!flag && !absl::StrContains(row.options, absl::StrCat(" ", name, "= "))) {
        return absl::InvalidArgumentError(
            absl::StrCat("launch ", row.name, ": unknown option '", name, "' ", hint));
      }
      if (flag && equals != std::string::npos) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": takes no value, got '", word.substr(equals + 1), "'"));
      }
      if (!flag && equals == std::string::npos && i + 1 == words.size()) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": want a value, got nothing ", hint));
      }
      const std::string text = flag                          ? ""
                               : equals != std::string::npos ? word.substr(equals + 1)
                                                             : words[++i];
      RETURN_IF_ERROR(Set(name, text, now, zone, out));
    } else if (out.kind == Kind::kChaos) {
      out.words.push_back(word);
    } else if (!out.job.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("launch ", row.name, ": what is '", word, "'? ", hint,
                       "; to run a program of that name: launch -- ", row.name));
    } else {
      out.job = word;
    }
  }
  if (out.kind == Kind::kChaos) {
    ASSIGN_OR_RETURN(out.drill, ParseDrill(out.words, out.length));
    return out;
  }
  if (out.kind != Kind::kPs && out.kind != Kind::kRestart && out.job.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("launch ", row.name, ": which job? 'launch ps' lists them ", hint));
  }
  if (out.now && out.grace.has_value()) {
    return absl::InvalidArgumentError("--now and --grace contradict: keep one of the two");
  }
  return out;
}

std::string JobCommandHelp(Kind kind) {
  const CommandRow& row = RowOf(kind);
  return absl::StrCat(row.help, absl::StrContains(row.options, " --since= ") ? kWhen : "");
}

}  // namespace muster
