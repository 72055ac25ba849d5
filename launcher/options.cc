#include "launcher/options.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/job_file.h"
#include "launcher/option_values.h"
#include "launcher/resolve.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kHelpHint = "('launch --help' lists the options)";
constexpr absl::string_view kExample =
    "as in 'launch --nproc-per-node 4 train.py' or 'launch -n 4 ./prog'";

// First words that are kept for commands of our own; USERS.md section 3 names what they will do.
constexpr absl::string_view kSubCommands[] = {"attach", "chaos", "doctor", "events", "logs",
                                              "ps",     "stop",  "top",    "trace"};

// What people type out of habit, and what it is called here.
struct Habit {
  absl::string_view name;
  absl::string_view here;
};
constexpr Habit kHabits[] = {
    {"-N",
     "it means workers per node to mpirun and nodes to srun: say --nproc-per-node or --nnodes"},
    {"-c", "say --nproc-per-node for workers; OMP_NUM_THREADS follows from the CPUs of each"},
    {"--cpus-per-task",
     "OMP_NUM_THREADS follows from the CPUs of each worker; set it with -x OMP_NUM_THREADS=N"},
    {"-w", "hosts are given with --hosts"},
    {"--nodelist", "hosts are given with --hosts"},
    {"--nodes", "the number of nodes is --nnodes"},
    {"--export", "say -x NAME or -x NAME=VALUE, once for each"},
    {"--output", "say --log-dir DIR, --log-prefix or --timestamps"},
    {"--cpu-bind", "workers are not bound to CPUs: leave it out"},
    {"--rankfile", "give the hosts in the order of the ranks, with slots: --hosts a:2,b:2"},
    {"-rankmap", "give the hosts in the order of the ranks, with slots: --hosts a:2,b:2"},
    {"-order-nodes", "give the hosts in the order you want: --hosts a,b"},
    {"--nolocal", "name this machine with --exclude"},
    {"-skip-launch-node", "name this machine with --exclude"},
    {"--pernode", "say --nproc-per-node 1"},
    {"--app", "launch starts one program: give its options on the command line"},
    {"-configfile", "launch starts one program: give its options on the command line"},
    {"--merge-stderr-to-stdout", "say 2>&1 behind the command"},
    {"-prepend-pattern", "say --log-prefix TEMPLATE"},
    {"--enable-recovery", "the others are stopped; --max-restarts N starts all again"},
    {"--continuous", "the others are stopped; --max-restarts N starts all again"},
    {"-disable-auto-cleanup", "the others are stopped; --max-restarts N starts all again"},
    {"--preload-binary", "the program must lie at the same path on every node: copy it first"},
    {"--preload-files", "files must lie at the same path on every node: copy them first"},
    {"--tune", "its settings are Open MPI's own: leave it out, or set OMPI_MCA_... with -x"},
    {"-rsh", "--ssh names the program"},
    {"--use-env", "that is always so: leave it out"},
};

std::string Dashes(absl::string_view name) {  // --nproc_per_node is --nproc-per-node
  std::string out(name);
  if (absl::StartsWith(name, "--")) {
    std::replace(out.begin(), out.end(), '_', '-');
  }
  return out;
}

class Parser {
 public:
  Parser(const std::vector<std::string>& arguments, const Environment& environment,
         const FileReader& read_file)
      : arguments_(arguments), environment_(environment), read_file_(read_file) {
    spec().plan.grace = kGrace;
    spec().plan.output.spool_bytes_max = kOutputSpoolMax;
  }

  absl::StatusOr<ParsedCommand> Run() {
    RETURN_IF_ERROR(RefuseSubCommand());
    while (next_ < arguments_.size() && command_.action == CommandAction::kRun) {
      const absl::string_view word = arguments_[next_];
      if (word.size() < 2 || word[0] != '-') {
        break;
      }
      ++next_;
      if (word == "--") {
        break;
      }
      RETURN_IF_ERROR(TakeOption(word));
    }
    if (command_.action != CommandAction::kRun) {
      return std::move(command_);
    }
    RETURN_IF_ERROR(TakeEnvironment());
    RETURN_IF_ERROR(TakeFile());
    RETURN_IF_ERROR(TakeProgram());
    TakeForwarded();
    NoteMpiSettings();
    return std::move(command_);
  }

 private:
  JobSpec& spec() { return command_.spec; }

  absl::Status RefuseSubCommand() const {
    if (arguments_.empty() || std::find(std::begin(kSubCommands), std::end(kSubCommands),
                                        arguments_[0]) == std::end(kSubCommands)) {
      return absl::OkStatus();
    }
    const std::string& word = arguments_[0];
    return absl::InvalidArgumentError(
        absl::StrCat("'launch ", word, "' is kept for a command of launch that this build ",
                     "does not have yet; to run a program of that name: launch -- ", word));
  }

  absl::Status TakeOption(absl::string_view word) {
    const size_t equals = word.find('=');
    absl::string_view name = word.substr(0, equals);
    bool attached = equals != absl::string_view::npos;
    absl::string_view text = attached ? word.substr(equals + 1) : "";
    const OptionRow* row = FindOption(name);
    if (row == nullptr && word.size() > 2 && word[1] != '-' &&
        absl::ascii_isdigit(static_cast<unsigned char>(word[2]))) {
      const OptionRow* letter = FindOption(word.substr(0, 2));  // -n4, -t3
      if (letter != nullptr && letter->kind == ArgumentKind::kRequired) {
        row = letter;
        name = word.substr(0, 2);
        text = word.substr(2);
        attached = true;
      }
    }
    if (row == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option '", name, "'", OptionHint(name), " ", kHelpHint));
    }
    if (row->kind == ArgumentKind::kNone && attached) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": takes no value, got '", text, "'"));
    }
    if (row->kind == ArgumentKind::kRequired && !attached) {
      if (next_ == arguments_.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": want ", row->value_name, " after it, got nothing"));
      }
      text = arguments_[next_];
      if (row->id != OptionId::kSshArgs && FindOption(text) != nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": want ", row->value_name,
                                                       " after it, got the option '", text, "'"));
      }
      ++next_;
    }
    OptionValue value{name, text};
    std::string said(text);
    if (row->kind == ArgumentKind::kTwoWords) {
      RETURN_IF_ERROR(TakeTwoWords(*row, attached, value));
      said = absl::StrCat(value.text, " ", value.second);
    }
    return Apply(*row, value, {false, std::string(name), std::move(said), ""});
  }

  absl::Status TakeTwoWords(const OptionRow& row, bool attached, OptionValue& value) {
    const auto word = [&](size_t at) {
      return at < arguments_.size() ? absl::string_view(arguments_[at]) : absl::string_view();
    };
    const absl::string_view first = word(next_);
    const absl::string_view second = word(next_ + 1);
    const bool option = FindOption(first) != nullptr || FindOption(second) != nullptr;
    if (attached || next_ + 1 >= arguments_.size() || option) {
      return absl::InvalidArgumentError(absl::StrCat(
          value.name, ": want two words after it, ", row.value_name, ", got '",
          attached ? value.text : absl::StrCat(first, second.empty() ? "" : " ", second), "'"));
    }
    value.text = first;
    value.second = second;
    next_ += 2;
    return absl::OkStatus();
  }

  absl::Status Apply(const OptionRow& row, const OptionValue& value, Given given) {
    if (row.id == OptionId::kHelp || row.id == OptionId::kHelpAll || row.id == OptionId::kVersion) {
      command_.action = row.id == OptionId::kHelp      ? CommandAction::kHelp
                        : row.id == OptionId::kHelpAll ? CommandAction::kHelpAll
                                                       : CommandAction::kVersion;
      return absl::OkStatus();
    }
    if (row.set == nullptr) {
      spec().notes.push_back(absl::StrCat(value.name, " has no effect: ", row.help));
    } else {
      RETURN_IF_ERROR(row.set(value, spec()));
    }
    if (const auto it = spec().given.find(row.id);
        it != spec().given.end() && (row.id == OptionId::kHosts || row.id == OptionId::kHostfile ||
                                     row.id == OptionId::kExclude)) {
      given.value = absl::StrCat(it->second.value, ",", given.value);
      given.place = it->second.place;
    }
    spec().given.insert_or_assign(row.id, std::move(given));
    return absl::OkStatus();
  }

  // Options beside which one that comes from a weaker source is not meant: a variable left over in
  // the environment, or a line of the job file.
  std::vector<OptionId> Displacing(OptionId id) const {
    switch (id) {
      case OptionId::kNprocPerNode:
        return {OptionId::kTotal, OptionId::kPpn};
      case OptionId::kTotal:
      case OptionId::kPpn:
        return {OptionId::kNprocPerNode};
      case OptionId::kNnodes:
        return {OptionId::kHosts, OptionId::kHostfile};
      case OptionId::kRdzvEndpoint:
      case OptionId::kRdzvBackend:
      case OptionId::kNodeRank:
      case OptionId::kMasterAddr:
      case OptionId::kMasterPort:
        return {OptionId::kHosts, OptionId::kHostfile, OptionId::kStandalone};
      case OptionId::kStandalone:
        return {OptionId::kHosts, OptionId::kHostfile, OptionId::kRdzvEndpoint,
                OptionId::kMasterAddr, OptionId::kServe};
      case OptionId::kModule:
      case OptionId::kRunPath:
        return {OptionId::kNoPython};
      case OptionId::kNoPython:
        return {OptionId::kModule, OptionId::kRunPath};
      default:
        return {};
    }
  }

  absl::Status TakeEnvironment() {
    const std::map<OptionId, Given> typed = spec().given;
    for (const OptionRow& row : OptionTable()) {
      const auto it = environment_.find(row.environment);
      if (it == environment_.end() || it->second.empty() || typed.count(row.id) != 0) {
        continue;
      }
      const OptionValue value{row.environment, it->second};
      if (row.kind == ArgumentKind::kNone) {
        ASSIGN_OR_RETURN(const bool on, ParseBool(value));
        if (!on) {
          switched_off_.insert(row.id);
          continue;
        }
      }
      bool displaced = false;
      for (const OptionId other : Displacing(row.id)) {
        if (!displaced && typed.count(other) != 0) {
          displaced = true;
          spec().notes.push_back(absl::StrCat(
              value.name, "=", value.text,
              " in the environment is not used: ", typed.at(other).name, " was given"));
        }
      }
      if (!displaced) {
        RETURN_IF_ERROR(Apply(row, value, {true, row.environment, it->second, ""}));
      }
    }
    return absl::OkStatus();
  }

  bool NamesProgram() const { return next_ < arguments_.size(); }

  absl::Status TakeFile() {
    if (spec().config_file.empty()) {
      return absl::OkStatus();
    }
    const absl::StatusOr<std::string> text = read_file_(spec().config_file);
    if (!text.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec().Said(OptionId::kConfig), ": ", text.status().message()));
    }
    ASSIGN_OR_RETURN(file_, ParseJobFile(*text, spec().config_file));
    const std::map<OptionId, Given> stronger = spec().given;
    const std::vector<std::string> forward = std::exchange(spec().forward, {});
    for (const JobFileSetting& setting : file_.settings) {
      RETURN_IF_ERROR(TakeSetting(setting, stronger, forward));
    }
    spec().forward.insert(spec().forward.end(), forward.begin(), forward.end());
    return absl::OkStatus();
  }

  // `stronger`: what the command line and the environment have set; `forward`: -x of the former.
  absl::Status TakeSetting(const JobFileSetting& setting, const std::map<OptionId, Given>& stronger,
                           const std::vector<std::string>& forward) {
    const auto name_of = [](absl::string_view text) { return text.substr(0, text.find('=')); };
    const bool same = setting.id == OptionId::kSetEnv
                          ? std::any_of(forward.begin(), forward.end(),
                                        [&](const std::string& typed) {
                                          return name_of(typed) == name_of(setting.text);
                                        })
                          : stronger.count(setting.id) != 0 || switched_off_.count(setting.id) != 0;
    if (same) {
      return absl::OkStatus();
    }
    const Given given{false, setting.key, setting.text,
                      absl::StrCat(file_.name, " line ", setting.line)};
    if (const std::string why = NotMeant(setting.id, stronger); !why.empty()) {
      spec().notes.push_back(
          absl::StrCat(given.name, ": ", given.value, " (", given.place, ") is not used: ", why));
      return absl::OkStatus();
    }
    const std::string name =
        absl::StrCat(file_.name, ":", setting.line, ":", setting.column, ": ", setting.key);
    return Apply(OptionOf(setting.id), {name, setting.text}, given);
  }

  // Why a line of the job file is left out, "" if it is not.
  std::string NotMeant(OptionId id, const std::map<OptionId, Given>& stronger) const {
    const std::vector<OptionId> displacing = Displacing(id);
    for (const auto& [other, given] : stronger) {
      if (Contradict(id, other) ||
          std::find(displacing.begin(), displacing.end(), other) != displacing.end()) {
        return absl::StrCat(given.name, " was given");
      }
    }
    const bool of_command =
        id == OptionId::kModule || id == OptionId::kRunPath || id == OptionId::kNoPython;
    return of_command && NamesProgram() && !file_.command.empty()
               ? "it belongs to the file's command, and the command line names another"
               : "";
  }

  absl::Status TakeProgram() {
    const std::vector<std::string> words =
        NamesProgram() ? std::vector<std::string>(
                             arguments_.begin() + static_cast<ptrdiff_t>(next_), arguments_.end())
                       : file_.command;
    if (words.empty() || words[0].empty()) {
      const std::string in_file =
          file_.name.empty() ? ""
                             : absl::StrCat("or as 'command: [PROGRAM]' in ", file_.name, ", ");
      return absl::InvalidArgumentError(absl::StrCat(
          "no program to run: name it after the options, ", in_file, kExample, " ", kHelpHint));
    }
    spec().program = words[0];
    spec().arguments.assign(words.begin() + 1, words.end());
    const auto python = environment_.find("PYTHON_EXEC");
    const bool named = python != environment_.end() && !python->second.empty();
    spec().plan.argv = ProgramArgv(spec(), named ? python->second : "python3");
    const auto colon = std::find(spec().arguments.begin(), spec().arguments.end(), ":");
    if (colon != spec().arguments.end() && colon + 1 != spec().arguments.end() &&
        FindOption(*(colon + 1)) != nullptr) {
      spec().notes.push_back(
          "':' and what follows it are arguments of the program: launch starts one program, not "
          "several");
    }
    return absl::OkStatus();
  }

  void TakeForwarded() {
    for (const std::string& text : spec().forward) {
      if (absl::StrContains(text, '=')) {
        spec().plan.env_set.push_back(text);
        continue;
      }
      const size_t before = spec().plan.env_set.size();
      absl::string_view prefix = text;
      const bool wild = absl::ConsumeSuffix(&prefix, "*");
      for (const auto& [name, value] : environment_) {
        if (wild ? absl::StartsWith(name, prefix) : name == text) {
          spec().plan.env_set.push_back(absl::StrCat(name, "=", value));
        }
      }
      if (spec().plan.env_set.size() == before) {
        spec().notes.push_back(
            absl::StrCat("-x ", text, ": not set here, so there is nothing to hand on"));
      }
    }
  }

  void NoteMpiSettings() {
    if (!spec().mpi_settings.empty()) {
      spec().notes.push_back(absl::StrCat(
          "settings of Open MPI itself have no effect: ", absl::StrJoin(spec().mpi_settings, ", "),
          " (a program that reads one gets it with -x OMPI_MCA_", spec().mpi_settings[0],
          "=...; for networks see --iface)"));
    }
  }

  const std::vector<std::string>& arguments_;  // borrowed for the time of Run
  const Environment& environment_;             // likewise
  const FileReader& read_file_;                // likewise
  std::set<OptionId> switched_off_;            // flags that the environment sets to 0
  JobFile file_;
  size_t next_ = 0;
  ParsedCommand command_;
};

}  // namespace

const OptionRow* FindOption(absl::string_view name) {
  const std::string wanted = Dashes(name);
  for (const OptionRow& row : OptionTable()) {
    for (absl::string_view known : absl::StrSplit(row.names, ' ')) {
      if (known == wanted) {
        return &row;
      }
    }
  }
  return nullptr;
}

std::string OptionHint(absl::string_view name) {
  const std::string wanted = Dashes(name);
  for (const Habit& habit : kHabits) {
    if (habit.name == wanted) {
      return absl::StrCat("; ", habit.here);
    }
  }
  constexpr size_t kNever = 1000;
  size_t best = kNever;
  std::string nearest;
  for (const OptionRow& row : OptionTable()) {
    for (absl::string_view known : absl::StrSplit(row.names, ' ')) {
      if (known.size() < 4 || wanted.size() < 4) {
        continue;  // one letter is near to everything
      }
      const size_t allowed = std::max<size_t>(1, wanted.size() / 4);
      if (wanted.size() > known.size() + allowed) {
        continue;  // known before the work is done, which a long word makes long
      }
      const bool abbreviated = wanted.size() > 4 && absl::StartsWith(known, wanted);  // --nproc
      const size_t distance = abbreviated ? 1 : EditDistance(wanted, known);
      if (distance <= allowed && distance < best) {
        best = distance;
        nearest = std::string(known);
      }
    }
  }
  return best == kNever ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

absl::StatusOr<ParsedCommand> ParseCommandLine(const std::vector<std::string>& arguments,
                                               const Environment& environment,
                                               const FileReader& read_file) {
  return Parser(arguments, environment, read_file).Run();
}

}  // namespace muster
