#include "launcher/job_file_writer.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "launcher/config_file.h"
#include "launcher/job_file.h"
#include "launcher/node_overrides.h"
#include "launcher/option_values.h"
#include "launcher/options.h"
#include "launcher/programs.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

// Whether every reader of YAML takes `text` without quotes for a text, whatever version it follows.
bool IsPlain(absl::string_view text) {
  static constexpr absl::string_view kOther[] = {"y",     "n",  "yes", "no",  "true",
                                                 "false", "on", "off", "null"};
  const auto letter = [](char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); };
  const bool begins = !text.empty() && (letter(text[0]) || text[0] == '/');
  return begins && text.back() != ':' &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) {
                       return letter(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
                              absl::StrContains("_./@:+-", c);
                     }) &&
         std::find(std::begin(kOther), std::end(kOther), absl::AsciiStrToLower(text)) ==
             std::end(kOther);
}

bool IsCount(absl::string_view text) {
  constexpr size_t kDigitsMax = 9;  // a number of 32 bits to everybody
  return !text.empty() && text.size() <= kDigitsMax && (text[0] != '0' || text.size() == 1) &&
         std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

class Writer {
 public:
  void Line(absl::string_view text) {
    absl::StrAppend(&out_, first_.empty() ? indent_ : std::exchange(first_, ""), text, "\n");
  }

  // What follows is an item of a list: a map.
  void BeginItem() {
    indent_ = "    ";
    first_ = "  - ";
  }

  void Value(absl::string_view key, absl::string_view text) {
    Line(absl::StrCat(key, ": ", IsCount(text) ? std::string(text) : Text(key, text)));
  }

  void List(absl::string_view key, const std::vector<std::string>& items) {
    Line(absl::StrCat(key, ":"));
    for (const std::string& item : items) {
      Line(absl::StrCat("  - ", Text(key, item)));
    }
  }

  // Maps in a map: Key opens one, and what follows up to its End is inside.
  void Key(absl::string_view text) { Line(absl::StrCat(Text(text, text), ":")); }
  void Begin() { indent_ += "  "; }
  void End() { indent_.resize(indent_.size() - 2); }

  // `entries`: "NAME=value" or "NAME", in which the last of a name counts.
  void Environment(absl::string_view key, const std::vector<std::string>& entries) {
    const auto name_of = [](absl::string_view entry) { return entry.substr(0, entry.find('=')); };
    Line(absl::StrCat(key, ":"));
    for (auto it = entries.begin(); it != entries.end(); ++it) {
      const absl::string_view name = name_of(*it);
      if (std::any_of(it + 1, entries.end(),
                      [&](const std::string& later) { return name_of(later) == name; })) {
        continue;
      }
      Line(absl::StrCat(
          "  ", Text(key, name), ": ",
          name.size() == it->size() ? "null" : Text(name, it->substr(name.size() + 1))));
    }
  }

  absl::StatusOr<std::string> Take() {
    RETURN_IF_ERROR(error_);
    return std::move(out_);
  }

 private:
  std::string Text(absl::string_view key, absl::string_view text) {
    if (IsPlain(text)) {
      return std::string(text);
    }
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        absl::StrAppend(&out, "\\", absl::string_view(&c, 1));
      } else if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
        absl::StrAppend(&out, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
      } else {
        out.push_back(c);
      }
    }
    if (error_.ok() && YamlTextBytes(out) != out.size()) {
      error_ = absl::InvalidArgumentError(absl::StrCat(
          "--yaml: the value of ", key, " has bytes that are not UTF-8, which YAML cannot hold: ",
          "leave it to the command line"));
    }
    return out + "\"";
  }

  std::string out_;
  std::string indent_;
  std::string first_;  // in place of `indent_` on the next line
  absl::Status error_;
};

// The words of --ssh-args; those of --ssh come before them.
absl::StatusOr<std::vector<std::string>> SshArgs(const JobSpec& spec) {
  size_t own = 1;
  if (const auto ssh = spec.given.find(OptionId::kSsh); ssh != spec.given.end()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> words,
                     ParseWords({ssh->second.name, ssh->second.value}));
    own = words.size();
  }
  return std::vector<std::string>(spec.ssh.begin() + static_cast<ptrdiff_t>(own), spec.ssh.end());
}

// The options of which `wanted` says so.
template <typename Wanted>
absl::Status WriteOptions(const JobSpec& spec, const Wanted& wanted, Writer& writer) {
  for (const OptionRow& row : OptionTable()) {
    if (!spec.Has(row.id) || !MayBeInJobFile(row.id) || !wanted(row.id)) {
      continue;
    }
    const std::string key = JobFileKey(row.id);
    if (row.id == OptionId::kSetEnv) {
      writer.Environment(key, spec.forward);
    } else if (row.id == OptionId::kSshArgs) {
      ASSIGN_OR_RETURN(const std::vector<std::string> words, SshArgs(spec));
      if (!words.empty()) {
        writer.List(key, words);
      }
    } else if (row.kind == ArgumentKind::kNone) {
      writer.Line(absl::StrCat(key, ": true"));
    } else if (TakesList(row.id)) {
      writer.List(key, ValuesOf(spec, row.id));
    } else {
      writer.Value(key, ValuesOf(spec, row.id).front());
    }
  }
  return absl::OkStatus();
}

absl::Status WriteNodes(const JobSpec& spec, Writer& writer) {
  if (spec.node_overrides.empty()) {
    return absl::OkStatus();
  }
  writer.Line("nodes:");
  writer.Begin();
  for (const NodeOverride& one : spec.node_overrides) {
    writer.Key(one.node);
    writer.Begin();
    RETURN_IF_ERROR(WriteOptions(one.says, MaySayNode, writer));
    writer.End();
  }
  writer.End();
  return absl::OkStatus();
}

void WriteCommand(const JobSpec& spec, Writer& writer) {
  std::vector<std::string> command = {spec.program};
  command.insert(command.end(), spec.arguments.begin(), spec.arguments.end());
  writer.List("command", command);
}

}  // namespace

absl::StatusOr<std::string> WriteJobFile(const JobSpec& spec) {
  Writer writer;
  writer.Line("# launch --config FILE");
  if (spec.further.empty()) {
    RETURN_IF_ERROR(WriteOptions(
        spec, [](OptionId) { return true; }, writer));
    RETURN_IF_ERROR(WriteNodes(spec, writer));
    WriteCommand(spec, writer);
    return writer.Take();
  }
  const auto of_program = [&](OptionId id) { return SaysProgram(spec, id); };
  const auto of_job = [&](OptionId id) { return !SaysProgram(spec, id); };
  RETURN_IF_ERROR(WriteOptions(spec, of_job, writer));
  RETURN_IF_ERROR(WriteNodes(spec, writer));
  writer.Line("programs:");
  for (const JobSpec* program : ProgramsOf(spec)) {
    writer.BeginItem();
    RETURN_IF_ERROR(WriteOptions(*program, of_program, writer));
    WriteCommand(*program, writer);
  }
  return writer.Take();
}

}  // namespace muster
