#include "launcher/sweep/sweep_command.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/option_values.h"
#include "launcher/sweep/rate_pattern.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kRunsMax = 64;
constexpr uint32_t kSecondsMax = 24 * 3600;

// What a job of a sweep cannot be: it is watched by launch sweep, ends soon, and has a report.
constexpr OptionId kRefused[] = {
    OptionId::kDetach, OptionId::kPlan,  OptionId::kExplainEnv,
    OptionId::kPty,    OptionId::kGdb,   OptionId::kReport,
    OptionId::kYaml,   OptionId::kServe, OptionId::kRdzvEndpoint,
};

// A list of what is varied, by one option.
struct Axis {
  std::string name;                 // as it was typed
  std::vector<std::string> values;  // one "" where nothing was said
};

// The words, taken apart.
struct Split {
  SweepCommand command;
  Axis counts;
  Axis bindings;
  std::vector<std::string> options;  // launch's own
  std::vector<std::string> program;
};

absl::Status TakeList(const OptionValue& v, Axis& axis) {
  if (!axis.name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("launch sweep: ", axis.name, " and ", v.name,
                                                   ": say what to vary once, as one list"));
  }
  axis.name = std::string(v.name);
  axis.values = absl::StrSplit(v.text, ',');
  const std::set<std::string> different(axis.values.begin(), axis.values.end());
  if (different.count("") != 0 || different.size() != axis.values.size()) {
    return WantError(v, "a list of different values with commas between them, as in 8,16,32");
  }
  return absl::OkStatus();
}

bool IsCount(OptionId id) {
  return id == OptionId::kNprocPerNode || id == OptionId::kTotal || id == OptionId::kPpn;
}

// One option of the sweep itself. False: it is none.
absl::StatusOr<bool> TakeOwn(const OptionValue& v, SweepCommand& out) {
  if (v.name == "--sweep-seconds") {
    ASSIGN_OR_RETURN(const uint32_t seconds, ParseNumber(v, 1, kSecondsMax));
    out.each = absl::Seconds(seconds);
    return true;
  }
  if (v.name == "--rate-regex") {
    RETURN_IF_ERROR(RatePattern::Compile(std::string(v.text)).status());
    out.rate_regex = std::string(v.text);
    return true;
  }
  return false;
}

// How many words behind `word` are its values.
size_t WordsBehind(absl::string_view word, const OptionRow* row, absl::string_view next) {
  if (absl::StrContains(word, '=') || row == nullptr) {
    return word == "--sweep-seconds" || word == "--rate-regex" ? 1 : 0;
  }
  return ValuesBehind(*row, next);
}

absl::Status TakeOption(const std::vector<std::string>& words, size_t& at, Split& out) {
  const std::string& word = words[at];
  const std::pair<std::string, std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
  const OptionRow* row = FindOption(parts.first);
  const size_t behind = WordsBehind(word, row, at + 1 < words.size() ? words[at + 1] : "");
  if (at + behind >= words.size()) {
    return absl::InvalidArgumentError(absl::StrCat("launch sweep: ", word, ": a value is missing"));
  }
  const OptionValue value = {parts.first, behind > 0 ? words[at + 1] : parts.second};
  const size_t first = at;
  at += 1 + behind;
  if (word == "--json") {
    out.command.json = true;
    return absl::OkStatus();
  }
  if (row != nullptr && (row->id == OptionId::kHelp || row->id == OptionId::kHelpAll)) {
    out.command.help = true;
    return absl::OkStatus();
  }
  if (row != nullptr && IsCount(row->id)) {
    return TakeList(value, out.counts);
  }
  if (row != nullptr && row->id == OptionId::kBindTo) {
    return TakeList(value, out.bindings);
  }
  ASSIGN_OR_RETURN(const bool own, TakeOwn(value, out.command));
  if (!own) {
    out.options.insert(out.options.end(), words.begin() + static_cast<ptrdiff_t>(first),
                       words.begin() + static_cast<ptrdiff_t>(at));
  }
  return absl::OkStatus();
}

absl::StatusOr<Split> SplitWords(const std::vector<std::string>& words) {
  Split out;
  size_t at = 1;
  while (at < words.size() && words[at].size() > 1 && words[at][0] == '-' && words[at] != "--") {
    RETURN_IF_ERROR(TakeOption(words, at, out));
  }
  out.program.assign(words.begin() + static_cast<ptrdiff_t>(at), words.end());
  return out;
}

SweepRun RunOf(const Split& split, const std::string& count, const std::string& bind_to) {
  SweepRun out;
  out.count = count;
  out.bind_to = bind_to;
  std::vector<std::string> varied;
  for (const auto& [name, value] :
       {std::pair(split.counts.name, count), std::pair(split.bindings.name, bind_to)}) {
    if (!value.empty()) {
      varied.insert(varied.end(), {name, value});
    }
  }
  out.said = absl::StrJoin(varied, " ");
  out.words = split.options;
  out.words.insert(out.words.end(), varied.begin(), varied.end());
  out.words.insert(out.words.end(), split.program.begin(), split.program.end());
  return out;
}

absl::Status CheckRun(const SweepRun& run, const Environment& environment,
                      const FileReader& read_job_file) {
  ASSIGN_OR_RETURN(const ParsedCommand command,
                   ParseCommandLine(run.words, environment, read_job_file));
  for (const OptionId id : kRefused) {
    if (command.spec.Has(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("launch sweep: ", command.spec.Said(id),
                       " has no place here: each run is short, on nodes that launch starts, and "
                       "its report is read by launch sweep; leave it out"));
    }
  }
  return absl::OkStatus();
}

// Too few combinations, or too many. `next`: what to do.
absl::Status WrongNumber(const Split& split, absl::string_view next) {
  std::vector<std::string> said;
  for (const Axis* axis : {&split.counts, &split.bindings}) {
    if (!axis->name.empty()) {
      said.push_back(absl::StrCat(axis->name, " ", absl::StrJoin(axis->values, ",")));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("launch sweep: want 2..", kRunsMax, " combinations to compare, got ",
                   split.command.runs.size(),
                   said.empty() ? "" : absl::StrCat(" (", absl::StrJoin(said, " "), ")"), next));
}

constexpr char kHelp[] =
    "launch sweep --nproc-per-node LIST [--bind-to LIST] [OPTIONS] PROGRAM [ARG ...]\n"
    "  --nproc-per-node LIST  numbers of workers to try: 8,16,32 (or -n LIST, -ppn LIST)\n"
    "  --bind-to LIST         bindings to try with each of them: core,none\n"
    "  --sweep-seconds N      each run is stopped after N s, as by SIGTERM (default 15); one that\n"
    "                         ends by itself is taken as it is\n"
    "  --rate-regex REGEX     where PROGRAM does not count its steps: an extended regular\n"
    "                         expression whose first group is a rate in a line of its output\n"
    "                         (steps, samples or tokens per second: more is better)\n"
    "  --json                 as one JSON object\n"
    "  OPTIONS                all others as for launch: --hosts, --map-by, -x ...\n"
    "\n"
    "Runs PROGRAM briefly with each combination, one after the other, and prints a table: how "
    "fast\n"
    "it was, which part of its time it waited for a CPU, and which is best, by how much.\n"
    "How fast, by the first of these that there is: --rate-regex (mean of the later half of the\n"
    "lines); steps per second that the SDK counts (comm.commit(step)), from the first step to the\n"
    "last, so that start-up does not count; the time that PROGRAM takes to its end.\n"
    "What a step is worth is for you to know: with more workers it may be more.\n"
    "\n"
    "Example: 16 cores, and is it better to run 8, 16 or 32 workers, bound or not?\n"
    "  launch sweep --nproc-per-node 8,16,32 --bind-to auto,none train.py --lr 0.1\n"
    "  launch sweep -n 8,16 --rate-regex '([0-9.]+) it/s' --sweep-seconds 60 train.py\n"
    "\n"
    "Exit status: 0 if there is a best one, 1 if not, 2 usage, 128 + signal if stopped.\n";

}  // namespace

bool IsSweepCommand(absl::string_view word) { return word == "sweep"; }

std::string SweepHelp() { return kHelp; }

absl::StatusOr<SweepCommand> ParseSweepCommand(const std::vector<std::string>& words,
                                               const Environment& environment,
                                               const FileReader& read_job_file) {
  ASSIGN_OR_RETURN(Split split, SplitWords(words));
  if (split.command.help) {
    return std::move(split.command);
  }
  const auto or_nothing = [](const Axis& axis) {
    return axis.values.empty() ? std::vector<std::string>{""} : axis.values;
  };
  for (const std::string& count : or_nothing(split.counts)) {
    for (const std::string& bind_to : or_nothing(split.bindings)) {
      split.command.runs.push_back(RunOf(split, count, bind_to));
    }
  }
  const std::vector<SweepRun>& runs = split.command.runs;
  if (runs.size() > kRunsMax) {
    return WrongNumber(split, ": leave values out");
  }
  const bool varies = !split.counts.name.empty() || !split.bindings.name.empty();
  for (const SweepRun& run : runs) {
    // A value that is wrong comes first: it is no matter of how many there are.
    const absl::Status checked = CheckRun(run, environment, read_job_file);
    if (!checked.ok() && (varies || runs.size() > 1)) {
      return checked;
    }
  }
  if (runs.size() < 2) {
    return WrongNumber(split,
                       ": say what to vary, as in --nproc-per-node 8,16,32 --bind-to core,none");
  }
  return std::move(split.command);
}

}  // namespace muster
