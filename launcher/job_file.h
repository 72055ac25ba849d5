// The job file of --config: YAML text in, the settings of options and the command out. Text and
// values only; thread-safe.
//
// A key is an option's long name without the dashes, with - or _ inside: its value is what the
// option takes, true or false for a flag. Besides these: `env:` is a map of NAME: value (without a
// value, the one that NAME has where launch runs), `command:` is the program and its arguments, a
// list of words or one text that is split at blanks and quotes and otherwise left as it is.
// `programs:`, in place of a command, is a list of several: maps of `np`, `env`, `wdir`, `hosts`,
// `command` and what else each may say for itself (programs.h). `nodes:` is a map of hosts, or of
// their places in the list, to maps of what is different there (node_overrides.h).
// A rule of `on-exit:` is the option's text, or a map as in {code: [3, 64-78], do: stop}.
//
// Rules:
//  J1 what a key may be set to is known to its option's row (option_table.cc) alone; here is YAML;
//  J2 nothing is passed over: a key that is unknown or there twice, a value of the wrong kind, an
//     alias, a tag and a second document are errors, "job.yaml:3:5: ...";
//  J3 what WriteJobFile (job_file_writer.h) writes is read as the job that it was written from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launcher/job_spec.h"
#include "launcher/programs.h"

namespace muster {

struct JobFileSetting {
  OptionId id;
  std::string key;      // as the file spells it
  std::string text;     // for the option's row: "true" for a flag, "NAME=value" or "NAME" of env
  uint32_t line = 0;    // of the value, from 1
  uint32_t column = 0;  // in characters, from 1
  bool operator==(const JobFileSetting&) const = default;
};

// What one key of `nodes:` says.
struct JobFileNode {
  std::string node;
  uint32_t line = 0;  // of the key, from 1
  uint32_t column = 0;
  std::vector<JobFileSetting> settings;
};

struct JobFile {
  std::string name;
  // In the order of the file; options that add up may come several times. A flag that is false is
  // as one that is not there.
  std::vector<JobFileSetting> settings;
  std::vector<std::string> command;    // the program first; empty: the file names none
  std::vector<ProgramWords> programs;  // in place of a command: several, as they would be typed
  std::vector<JobFileNode> nodes;      // in the order of the file
};

// `name` is the file's, for messages. InvalidArgument: J2.
absl::StatusOr<JobFile> ParseJobFile(absl::string_view text, const std::string& name);

// Whether a job file may set it; the others say what to do with a job, or are words of other
// launchers that have no long name, and are for the command line.
bool MayBeInJobFile(OptionId id);

// Options whose values add up may be given as a list.
bool TakesList(OptionId id);

// "nproc-per-node": the key of an option, as it is written; "" for one without a long name.
std::string JobFileKey(OptionId id);

}  // namespace muster
