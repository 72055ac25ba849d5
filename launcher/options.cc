#include "launcher/options.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "launcher/contradictions.h"
#include "launcher/job_file.h"
#include "launcher/mpi_options.h"
#include "launcher/option_setters.h"
#include "launcher/option_values.h"
#include "launcher/programs.h"
#include "launcher/schedule/first_set.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kHelpHint = "('launch --help' lists the options)";
constexpr absl::string_view kExample =
    "as in 'launch --nproc-per-node 4 train.py' or 'launch -n 4 ./prog'";

// First words that are kept for commands of our own; USERS.md section 3 names what they will do.
constexpr absl::string_view kSubCommands[] = {"chaos", "events", "top", "trace"};

class Parser {
 public:
  Parser(std::vector<ProgramWords> programs, const Environment& environment,
         const FileReader& read_file)
      : arguments_(std::move(programs.front().words)),
        environment_(environment),
        read_file_(read_file) {
    further_.assign(std::make_move_iterator(programs.begin() + 1),
                    std::make_move_iterator(programs.end()));
    spec().plan.grace = kGrace;
    spec().plan.output.spool_bytes_max = kOutputSpoolMax;
  }

  absl::StatusOr<ParsedCommand> Run() {
    RETURN_IF_ERROR(RefuseSubCommand());
    RETURN_IF_ERROR(TakeOptions());
    if (command_.action != CommandAction::kRun) {
      return std::move(command_);
    }
    RETURN_IF_ERROR(TakeEnvironment());
    RETURN_IF_ERROR(TakeFile());
    RETURN_IF_ERROR(TakeProgram());
    RETURN_IF_ERROR(TakeFurther());
    RETURN_IF_ERROR(NameDebugger(environment_, spec()));
    TakeForwarded();
    NoteIgnoredSettings(environment_, spec());
    return std::move(command_);
  }

  // One of several programs: `weaker` and `stronger` are variables of all of them.
  absl::StatusOr<JobSpec> RunProgram(const std::vector<std::string>& weaker,
                                     const std::vector<std::string>& stronger) {
    spec().forward = weaker;
    RETURN_IF_ERROR(TakeOptions());
    if (command_.action != CommandAction::kRun) {
      return absl::InvalidArgumentError("--help and --version stand before the first program");
    }
    RETURN_IF_ERROR(CheckFurther(spec()));
    RETURN_IF_ERROR(TakeProgram());
    spec().forward.insert(spec().forward.end(), stronger.begin(), stronger.end());
    if (!spec().forward.empty()) {  // as -x says it, where it is written down
      spec().given.insert({OptionId::kSetEnv, Given{false, "-x", spec().forward.back(), ""}});
    }
    TakeForwarded();
    return std::move(spec());
  }

 private:
  JobSpec& spec() { return command_.spec; }

  absl::Status RefuseSubCommand() const {
    const std::string word = arguments_.empty() ? "" : arguments_[0];
    if (std::count(std::begin(kSubCommands), std::end(kSubCommands), word) == 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'launch ", word, "' is kept for a command of launch that this build ",
                     "does not have yet; to run a program of that name: launch -- ", word));
  }

  absl::Status TakeOptions() {
    while (next_ < arguments_.size() && command_.action == CommandAction::kRun) {
      const std::string word = arguments_[next_];  // --configfile adds some
      if (word.size() < 2 || word[0] != '-') {
        break;
      }
      const bool of_lines = next_++ >= lines_begin_;
      if (word == "--" && (of_lines || lines_begin_ == kNowhere)) {
        break;
      }
      if (absl::Status taken = TakeOption(word); !taken.ok()) {
        return of_lines ? At(lines_place_, taken) : taken;
      }
    }
    if (next_ < lines_begin_ && lines_begin_ != kNowhere) {
      return absl::InvalidArgumentError(absl::StrCat(spec().Said(OptionId::kConfigLines),
                                                     " names the programs: '", arguments_[next_],
                                                     "' cannot be typed, too"));
    }
    return absl::OkStatus();
  }

  static absl::Status At(const std::string& place, const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(place, ": ", status.message()));
  }

  // The programs of --configfile, as if its lines had been typed with ':' between them.
  absl::Status TakeLines(const OptionValue& value) {
    if (!further_.empty() || lines_begin_ != kNowhere) {
      return absl::InvalidArgumentError(
          absl::StrCat(value.name, " ", value.text,
                       " names the programs, one on each line: no other can be typed with it"));
    }
    const std::string path(value.text);
    const absl::StatusOr<std::string> text = read_file_(path);
    if (!text.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(value.name, " ", path, ": ", text.status().message()));
    }
    ASSIGN_OR_RETURN(std::vector<ProgramWords> programs, ReadProgramLines(*text, path));
    lines_begin_ = arguments_.size();
    lines_place_ = programs.front().place;
    arguments_.insert(arguments_.end(), programs.front().words.begin(),
                      programs.front().words.end());
    further_.assign(std::make_move_iterator(programs.begin() + 1),
                    std::make_move_iterator(programs.end()));
    return absl::OkStatus();
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
    const OptionRow* undone = row == nullptr ? FindUndone(name) : nullptr;
    if (undone != nullptr && !attached) {
      return Undo(*undone, name);
    }
    if (row == nullptr && undone == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option '", name, "'", OptionHint(name), " ", kHelpHint));
    }
    if (undone != nullptr || (row->kind == ArgumentKind::kNone && attached)) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": takes no value, got '", text, "'"));
    }
    if (row->kind == ArgumentKind::kRequired && !attached) {
      if (next_ == arguments_.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": want ", row->value_name, " after it, got nothing"));
      }
      text = arguments_[next_];
      const bool is_option = FindOption(text) != nullptr || FindUndone(text) != nullptr;
      if (row->id != OptionId::kSshArgs && is_option) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": want ", row->value_name,
                                                       " after it, got the option '", text, "'"));
      }
      ++next_;
    }
    OptionValue value{name, text};
    std::string said(text);
    if (row->kind == ArgumentKind::kTwoWords) {
      RETURN_IF_ERROR(TakeTwoWords(*row, attached, value));
      said = absl::StrCat(value.text, ValuesBehind(*row, value.text) < 2 ? "" : " ", value.second);
    }
    return Apply(*row, value, {false, std::string(name), std::move(said), ""});
  }

  absl::Status Undo(const OptionRow& row, absl::string_view name) {
    const bool was_given = spec().given.erase(row.id) != 0;
    spec().undone.insert_or_assign(row.id, std::string(name));
    return was_given && row.set != nullptr ? row.set({name, "", "", true}, spec())
                                           : absl::OkStatus();
  }

  absl::Status TakeTwoWords(const OptionRow& row, bool attached, OptionValue& value) {
    const auto word = [&](size_t at) {
      return at < arguments_.size() ? absl::string_view(arguments_[at]) : absl::string_view();
    };
    const absl::string_view first = word(next_);
    const size_t behind = ValuesBehind(row, first);
    const absl::string_view second = behind < 2 ? absl::string_view() : word(next_ + 1);
    const bool option = FindOption(first) != nullptr || FindOption(second) != nullptr;
    if (attached || next_ + behind > arguments_.size() || option) {
      return absl::InvalidArgumentError(absl::StrCat(
          value.name, ": want two words after it, ", row.value_name, ", got '",
          attached ? value.text : absl::StrCat(first, second.empty() ? "" : " ", second), "'"));
    }
    value.text = first;
    value.second = second;
    next_ += behind;
    return absl::OkStatus();
  }

  absl::Status Apply(const OptionRow& row, const OptionValue& value, Given given) {
    if (row.id == OptionId::kHelp || row.id == OptionId::kHelpAll || row.id == OptionId::kVersion) {
      command_.action = row.id == OptionId::kHelp      ? CommandAction::kHelp
                        : row.id == OptionId::kHelpAll ? CommandAction::kHelpAll
                                                       : CommandAction::kVersion;
      return absl::OkStatus();
    }
    if (row.id == OptionId::kConfigLines) {
      const std::string name(value.name);  // its words may move
      const std::string path(value.text);
      RETURN_IF_ERROR(TakeLines({name, path}));
    } else if (row.set == nullptr) {
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
    spec().undone.erase(row.id);
    return absl::OkStatus();
  }

  absl::Status TakeEnvironment() {
    const std::map<OptionId, Given> typed = spec().given;
    for (const OptionRow& row : OptionTable()) {
      const auto* it = FirstSet(environment_, row.environment);
      if (it == nullptr || typed.count(row.id) != 0 || spec().undone.count(row.id) != 0) {
        continue;
      }
      const OptionValue value{it->first, it->second};
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
        RETURN_IF_ERROR(Apply(row, value, {true, it->first, it->second, ""}));
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
    RETURN_IF_ERROR(TakeNodes(stronger, forward));
    for (const JobFileSetting& setting : file_.settings) {
      RETURN_IF_ERROR(TakeSetting(setting, stronger, forward));
    }
    env_of_file_ = spec().forward;
    spec().forward.insert(spec().forward.end(), forward.begin(), forward.end());
    return absl::OkStatus();
  }

  // What the file says of single nodes.
  absl::Status TakeNodes(const std::map<OptionId, Given>& stronger,
                         const std::vector<std::string>& forward) {
    for (const JobFileNode& node : file_.nodes) {
      JobSpec job = std::exchange(spec(), JobSpec());
      absl::Status taken;
      for (size_t i = 0; taken.ok() && i < node.settings.size(); ++i) {
        taken = TakeSetting(node.settings[i], stronger, forward);
      }
      TakeForwarded();
      JobSpec says = std::exchange(spec(), std::move(job));
      RETURN_IF_ERROR(taken);
      spec().notes.insert(spec().notes.end(), says.notes.begin(), says.notes.end());
      if (!says.given.empty()) {
        spec().node_overrides.push_back({node.node,
                                         absl::StrCat(file_.name, ":", node.line, ":", node.column),
                                         std::move(says)});
      }
    }
    return absl::OkStatus();
  }

  // `stronger`: what the command line and the environment have set; `forward`: -x of the former.
  absl::Status TakeSetting(const JobFileSetting& setting, const std::map<OptionId, Given>& stronger,
                           const std::vector<std::string>& forward) {
    const auto name_of = [](absl::string_view text) { return text.substr(0, text.find('=')); };
    const bool same =
        setting.id == OptionId::kSetEnv
            ? std::any_of(
                  forward.begin(), forward.end(),
                  [&](const std::string& typed) { return name_of(typed) == name_of(setting.text); })
            : stronger.count(setting.id) != 0 || switched_off_.count(setting.id) != 0 ||
                  spec().undone.count(setting.id) != 0;
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
    if (!NamesProgram() && further_.empty() && !file_.programs.empty()) {
      return TakeProgramsOfFile();
    }
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
    return absl::OkStatus();
  }

  // The first one becomes this job's own; typed -x holds for all of them, and wins.
  absl::Status TakeProgramsOfFile() {
    for (const auto& [id, given] : spec().given) {
      const bool of_all = id == OptionId::kSetEnv || id == OptionId::kSetEnvPair ||
                          id == OptionId::kEnvList || id == OptionId::kHosts ||
                          id == OptionId::kHostfile;
      if (MaySayProgram(id) && !of_all) {
        return absl::InvalidArgumentError(absl::StrCat(
            spec().Said(id), ": each of the programs of ", file_.name, " says that for itself"));
      }
    }
    for (const auto& [id, name] : spec().undone) {
      if (MaySayProgram(id)) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": each of the programs of ", file_.name, " says that for itself"));
      }
    }
    const std::vector<std::string> typed(
        spec().forward.begin() + static_cast<ptrdiff_t>(env_of_file_.size()), spec().forward.end());
    std::vector<JobSpec> programs;
    for (const ProgramWords& words : file_.programs) {
      ASSIGN_OR_RETURN(JobSpec program, ParseFurther(words, env_of_file_, typed));
      programs.push_back(std::move(program));
    }
    JobSpec& first = programs.front();
    spec().program = first.program;
    spec().arguments = first.arguments;
    spec().plan.argv = first.plan.argv;
    spec().plan.wdir = first.plan.wdir;
    spec().total = first.total;
    spec().forward = first.forward;
    spec().module = first.module;
    spec().no_python = first.no_python;
    spec().run_path = first.run_path;
    if (first.Has(OptionId::kHosts) || first.Has(OptionId::kHostfile)) {
      spec().hosts_texts = first.hosts_texts;
      spec().hostfiles = first.hostfiles;
    }
    spec().given.insert(first.given.begin(), first.given.end());
    spec().notes.insert(spec().notes.end(), first.notes.begin(), first.notes.end());
    spec().further.assign(std::make_move_iterator(programs.begin() + 1),
                          std::make_move_iterator(programs.end()));
    return absl::OkStatus();
  }

  absl::StatusOr<JobSpec> ParseFurther(const ProgramWords& words,
                                       const std::vector<std::string>& weaker,
                                       const std::vector<std::string>& stronger) const {
    auto program = Parser({words}, environment_, read_file_).RunProgram(weaker, stronger);
    return program.ok() ? std::move(program) : At(words.place, program.status());
  }

  // Those behind ':' or in the lines of --configfile.
  absl::Status TakeFurther() {
    std::vector<std::string> to_all = env_of_file_;
    to_all.insert(to_all.end(), spec().forward_to_all.begin(), spec().forward_to_all.end());
    for (const ProgramWords& words : further_) {
      ASSIGN_OR_RETURN(JobSpec program, ParseFurther(words, to_all, {}));
      spec().further.push_back(std::move(program));
    }
    for (JobSpec& program : spec().further) {
      spec().mpi_settings.insert(spec().mpi_settings.end(), program.mpi_settings.begin(),
                                 program.mpi_settings.end());
      for (std::string& note : program.notes) {
        if (std::find(spec().notes.begin(), spec().notes.end(), note) == spec().notes.end()) {
          spec().notes.push_back(std::move(note));
        }
      }
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

  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  std::vector<std::string> arguments_;  // of the first program
  std::vector<ProgramWords> further_;   // the others
  const Environment& environment_;      // borrowed for the time of Run, as what follows
  const FileReader& read_file_;
  size_t lines_begin_ = kNowhere;         // where the words of --configfile begin in arguments_
  std::string lines_place_;               // of its first program
  std::vector<std::string> env_of_file_;  // of the job file, for all programs
  std::set<OptionId> switched_off_;       // flags that the environment sets to 0
  JobFile file_;
  size_t next_ = 0;
  ParsedCommand command_;
};

}  // namespace

absl::StatusOr<ParsedCommand> ParseCommandLine(const std::vector<std::string>& arguments,
                                               const Environment& environment,
                                               const FileReader& read_file) {
  ASSIGN_OR_RETURN(std::vector<ProgramWords> programs, SplitAtColons(arguments));
  return Parser(std::move(programs), environment, read_file).Run();
}

}  // namespace muster
