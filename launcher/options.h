// The command line of `launch`: a table of our own (one row an option), because option libraries
// refuse names such as -np, -ppn and -hosts. Pure functions: arguments and environment come in as
// values.
//
// Rules:
//  O1 options come before the program; the first word that is no option is the program, and
//  everything behind it
//     belongs to the program; "--" ends the options;
//  O2 long names take "--opt value" and "--opt=value", with dashes or underscores; a single letter
//  takes its number
//     attached, too (-n4, -t3);
//  O3 what the command line says wins over the environment (PET_*), which wins over the job file
//     (--config), which wins over the default; what contradicts a stronger one is left out with a
//     note, two options of one source that contradict are an error naming both;
//  O4 an option given again replaces the earlier one; -x and its kin, --hosts, --hostfile,
//     --exclude, --wrap, --prologue and --ssh-args add. Over a job file only -x and its kin add, to
//     its env; every other option replaces what the file says;
//  O5 every flag that a job file may have is undone on the command line, whoever set it: --X by
//     --no-X, --no-X by --X (--no-prefix, as --prefix is mpirun's, by --label).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "launcher/job_spec.h"
#include "launcher/schedule/file_reader.h"

namespace muster {

using Environment = std::map<std::string, std::string>;
// The text of a file, or why it cannot be had.

inline absl::StatusOr<std::string> NoFile(const std::string&) {
  return absl::NotFoundError("there are no files here");
}

struct OptionValue {
  absl::string_view name;         // as the user spelled it, for messages
  absl::string_view text;         // "" for a flag
  absl::string_view second = {};  // of two words
  bool undone = false;            // of a flag: as if nobody had given it
};

enum class ArgumentKind : uint8_t {
  kNone,      // a flag
  kRequired,  // --opt value, --opt=value
  kOptional,  // --opt, --opt=value
  kTwoWords,  // -opt key value; of variables -opt key=value as well, as mpiexec has it
};

struct OptionRow {
  OptionId id;
  ArgumentKind kind;
  bool common;              // in --help; the others only in --help-all
  const char* names;        // separated by blanks, the one to show first
  const char* value_name;   // "N|MIN:MAX", "" for a flag
  const char* environment;  // variables that give a default, the first that is set; or ""
  const char* group;
  const char* help;  // why it has no effect, where `set` is nullptr
  absl::Status (*set)(const OptionValue& value, JobSpec& spec);
};

// In the order of OptionId and of --help-all.
absl::Span<const OptionRow> OptionTable();
const OptionRow& OptionOf(OptionId id);
// The row that has `name` among its names, with - or _ inside; nullptr where none has.
const OptionRow* FindOption(absl::string_view name);
// The flag that `name` undoes (O5); nullptr where it undoes none.
const OptionRow* FindUndone(absl::string_view name);
// What undoes this flag; "" for what is no flag, or cannot stand in a job file.
std::string UndoName(OptionId id);
// How many words behind the name are its values, the next one being `next`.
size_t ValuesBehind(const OptionRow& row, absl::string_view next);
// The name shown in messages and help: the first of the row.
absl::string_view OptionName(OptionId id);

enum class CommandAction : uint8_t { kRun, kHelp, kHelpAll, kVersion };

struct ParsedCommand {
  CommandAction action = CommandAction::kRun;
  JobSpec spec;  // kRun
};

// `arguments` without the name of launch itself. Errors are InvalidArgument: wrong usage, exit 2.
// The only outside contact is `read_file`, for the file of --config.
absl::StatusOr<ParsedCommand> ParseCommandLine(const std::vector<std::string>& arguments,
                                               const Environment& environment,
                                               const FileReader& read_file = NoFile);

// What `name` may have been meant to be, as a sentence that begins with "; " ("; did you mean
// --nnodes?"), or "".
std::string OptionHint(absl::string_view name);

}  // namespace muster
