#include "launcher/job_file.h"

#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "launcher/config_file.h"
#include "launcher/node_overrides.h"
#include "launcher/option_values.h"
#include "launcher/options.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr absl::string_view kCommand = "command";
constexpr absl::string_view kPrograms = "programs";
constexpr absl::string_view kNodes = "nodes";

// As much of a text as a message has room for.
std::string Shown(const std::string& text) {
  constexpr size_t kShown = 80;
  return text.size() <= kShown ? text : absl::StrCat(text.substr(0, kShown), "...");
}

std::string KeyHint(absl::string_view key) {
  constexpr size_t kNear = 2;          // edits
  constexpr size_t kKeyBytesMax = 64;  // a longer one is near to nothing
  if (key.size() > kKeyBytesMax) {
    return "";
  }
  if (key == "program" || key == "args" || key == "arguments" || key == "cmd" ||
      EditDistance(key, kCommand) <= kNear) {
    return "; the program and its arguments are command: [PROGRAM, ARGUMENT, ...]";
  }
  const std::string near = absl::StrReplaceAll(OptionHint(absl::StrCat("--", key)),
                                               {{"did you mean --", "did you mean "}});
  return near.empty() ? "; a key is an option without its dashes (launch --help-all has them)"
                      : near;
}

bool IsBool(const YamlValue& value, bool& on) {
  const std::string word = absl::AsciiStrToLower(value.text);
  on = word == "true";
  return value.kind == YamlValue::Kind::kText && value.plain && (on || word == "false");
}

class Reader {
 public:
  explicit Reader(const std::string& name) { file_.name = name; }

  absl::StatusOr<JobFile> Read(const YamlValue& root) {
    if (root.kind != YamlValue::Kind::kMap) {
      return Error(root.place,
                   absl::StrCat("want keys with values, as in 'nnodes: 2', got ", KindName(root)));
    }
    for (size_t i = 0; i < root.items.size(); i += 2) {
      RETURN_IF_ERROR(ReadKey(root.items[i], root.items[i + 1]));
    }
    if (const auto it = seen_.find(std::string(kPrograms)); it != seen_.end()) {
      if (!file_.command.empty()) {
        return Error(it->second.place, "programs and command: keep one of the two");
      }
    }
    return std::move(file_);
  }

 private:
  absl::Status Error(YamlPlace place, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(At(file_.name, place), ": ", what));
  }

  absl::Status WrongKind(const YamlValue& value, absl::string_view key,
                         absl::string_view want) const {
    bool on = false;
    const std::string got =
        IsBool(value, on) ? absl::StrCat(value.text, " (quote it if it is a text)")
        : value.kind == YamlValue::Kind::kText ? absl::StrCat("'", Shown(value.text), "'")
                                               : std::string(KindName(value));
    return Error(value.place, absl::StrCat(key, ": want ", want, ", got ", got));
  }

  // `same`: what both spellings of a key have in common.
  absl::Status NotTwice(const YamlValue& key, const std::string& same) {
    const auto [it, fresh] = seen_.emplace(same, key);
    if (fresh) {
      return absl::OkStatus();
    }
    const YamlValue& first = it->second;
    return Error(key.place, absl::StrCat("'", key.text, "' is here twice: line ",
                                         first.place.line + 1, " has '", first.text, "'"));
  }

  absl::Status ReadKey(const YamlValue& key, const YamlValue& value) {
    if (key.kind != YamlValue::Kind::kText) {
      return Error(key.place, absl::StrCat("want the name of an option, got ", KindName(key)));
    }
    if (key.text == kCommand) {
      RETURN_IF_ERROR(NotTwice(key, key.text));
      return ReadCommand(value);
    }
    if (key.text == kPrograms) {
      RETURN_IF_ERROR(NotTwice(key, key.text));
      return ReadPrograms(value);
    }
    if (key.text == kNodes) {
      RETURN_IF_ERROR(NotTwice(key, key.text));
      return ReadNodes(value);
    }
    const OptionRow* row = FindOption(absl::StrCat("--", key.text));
    if (row == nullptr) {
      return Error(key.place,
                   absl::StrCat("unknown key '", Shown(key.text), "'", KeyHint(key.text)));
    }
    if (!MayBeInJobFile(row->id)) {
      return Error(key.place,
                   absl::StrCat("'", key.text,
                                "' is for the command line only: it says what to do, not what "
                                "the job is"));
    }
    RETURN_IF_ERROR(NotTwice(key, std::string(OptionName(row->id))));
    if (row->id == OptionId::kSetEnv) {
      return ReadEnv(key, value);
    }
    return row->kind == ArgumentKind::kNone ? ReadFlag(*row, key, value)
                                            : ReadValue(*row, key, value);
  }

  absl::Status ReadFlag(const OptionRow& row, const YamlValue& key, const YamlValue& value) {
    bool on = false;
    if (!IsBool(value, on)) {
      return WrongKind(value, key.text, "true or false (without quotes)");
    }
    if (on) {
      Add(row.id, key, value, value.text);
    }
    return absl::OkStatus();
  }

  absl::Status ReadValue(const OptionRow& row, const YamlValue& key, const YamlValue& value) {
    if (value.kind == YamlValue::Kind::kList && TakesList(row.id)) {
      if (value.items.empty()) {
        return Error(value.place, absl::StrCat(key.text, ": want ", row.value_name,
                                               ", or a list, got an empty list"));
      }
      if (value.items.size() > kNodesMax) {
        return Error(value.place, absl::StrCat(key.text, ": want at most ", kNodesMax,
                                               " in a list, got ", value.items.size()));
      }
      for (const YamlValue& item : value.items) {
        if (row.id == OptionId::kOnExit && item.kind == YamlValue::Kind::kMap) {
          ASSIGN_OR_RETURN(std::string rule, ExitRuleOf(item, key.text));
          Add(row.id, key, item, std::move(rule));
          continue;
        }
        if (item.kind != YamlValue::Kind::kText) {
          return WrongKind(item, key.text, "a list of texts");
        }
        // A list has the words as they are; --ssh-args has them as a shell would read them.
        Add(row.id, key, item, row.id == OptionId::kSshArgs ? ShellQuote(item.text) : item.text);
      }
      return absl::OkStatus();
    }
    bool on = false;
    if (value.kind != YamlValue::Kind::kText || IsBool(value, on)) {
      return WrongKind(
          value, key.text,
          TakesList(row.id) ? absl::StrCat(row.value_name, ", or a list") : row.value_name);
    }
    Add(row.id, key, value, value.text);
    return absl::OkStatus();
  }

  // "code=3,64-78:stop" of {code: [3, 64-78], do: stop}; the option's row knows the values.
  absl::StatusOr<std::string> ExitRuleOf(const YamlValue& map, absl::string_view key) {
    constexpr absl::string_view kKeys = "code, signal, oom or node-lost, and do";
    std::string match;
    std::string action;
    for (size_t i = 0; i < map.items.size(); i += 2) {
      const YamlValue& name = map.items[i];
      const YamlValue& value = map.items[i + 1];
      const bool flag = name.text == "oom" || name.text == "node-lost";
      const bool listed = name.text == "code" || name.text == "signal";
      if (!flag && !listed && name.text != "do") {
        return Error(name.place,
                     absl::StrCat(key, ": unknown key '", Shown(name.text), "', want ", kKeys));
      }
      std::string& out = name.text == "do" ? action : match;
      if (!out.empty()) {
        return Error(name.place, absl::StrCat(key, ": want one of ", kKeys, " in a rule"));
      }
      bool on = false;
      if (flag && (!IsBool(value, on) || !on)) {
        return WrongKind(value, absl::StrCat(key, ": ", name.text), "true (without quotes)");
      }
      ASSIGN_OR_RETURN(const std::string values,
                       TextsOf(value, absl::StrCat(key, ": ", name.text)));
      out = listed ? absl::StrCat(name.text, "=", values) : flag ? name.text : values;
    }
    if (match.empty() || action.empty()) {
      return Error(map.place,
                   absl::StrCat(key, ": want ", kKeys, ", as in {code: 75, do: restart-free}"));
    }
    return absl::StrCat(match, ":", action);
  }

  // One text, or those of a list with commas between them.
  absl::StatusOr<std::string> TextsOf(const YamlValue& value, absl::string_view key) {
    if (value.kind == YamlValue::Kind::kText) {
      return value.text;
    }
    std::vector<std::string> texts;
    for (const YamlValue& item : value.items) {
      if (value.kind != YamlValue::Kind::kList || item.kind != YamlValue::Kind::kText) {
        return WrongKind(item, key, "a text, or a list of texts");
      }
      texts.push_back(item.text);
    }
    if (texts.empty()) {
      return WrongKind(value, key, "a text, or a list of texts");
    }
    return absl::StrJoin(texts, ",");
  }

  absl::Status ReadEnv(const YamlValue& key, const YamlValue& value) {
    if (value.kind != YamlValue::Kind::kMap) {
      return WrongKind(value, key.text, "a map of NAME: value");
    }
    for (size_t i = 0; i < value.items.size(); i += 2) {
      const YamlValue& name = value.items[i];
      const YamlValue& text = value.items[i + 1];
      if (name.kind != YamlValue::Kind::kText || name.text.empty() ||
          absl::StrContains(name.text, '=')) {
        return WrongKind(name, key.text, "the name of a variable");
      }
      RETURN_IF_ERROR(NotTwice(name, absl::StrCat("env ", name.text)));
      if (text.kind == YamlValue::Kind::kText) {
        Add(OptionId::kSetEnv, key, text, absl::StrCat(name.text, "=", text.text));
      } else if (text.kind == YamlValue::Kind::kNothing) {
        Add(OptionId::kSetEnv, key, name, name.text);
      } else {
        return WrongKind(text, absl::StrCat(key.text, ": ", name.text), "a text, or nothing");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadCommand(const YamlValue& value) {
    constexpr absl::string_view kWant = "a list of words, or one text";
    if (value.kind == YamlValue::Kind::kText) {
      const std::string name = absl::StrCat(At(file_.name, value.place), ": ", kCommand);
      ASSIGN_OR_RETURN(file_.command, ParseWords({name, value.text}));
    } else if (value.kind == YamlValue::Kind::kList) {
      for (const YamlValue& word : value.items) {
        if (word.kind != YamlValue::Kind::kText) {
          return WrongKind(word, kCommand, kWant);
        }
        file_.command.push_back(word.text);
      }
    } else {
      return WrongKind(value, kCommand, kWant);
    }
    if (file_.command.empty() || file_.command[0].empty()) {
      return Error(value.place, absl::StrCat(kCommand, ": want a program, got nothing"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadPrograms(const YamlValue& value) {
    if (value.kind != YamlValue::Kind::kList || value.items.empty()) {
      return WrongKind(value, kPrograms, "a list of maps, as in '- {np: 2, command: [./a]}'");
    }
    if (value.items.size() > kProgramsMax) {
      return Error(value.place, absl::StrCat(kPrograms, ": want at most ", kProgramsMax, ", got ",
                                             value.items.size()));
    }
    for (const YamlValue& item : value.items) {
      if (item.kind != YamlValue::Kind::kMap) {
        return WrongKind(item, kPrograms, "maps, as in '- {np: 2, command: [./a]}'");
      }
      Reader program(file_.name);
      for (size_t i = 0; i < item.items.size(); i += 2) {
        RETURN_IF_ERROR(program.ReadKeyOfProgram(item.items[i], item.items[i + 1]));
      }
      if (program.file_.command.empty()) {
        return Error(item.place, "this program has no command: [PROGRAM, ARGUMENT, ...]");
      }
      file_.programs.push_back(
          {WordsOf(program.file_), absl::StrCat(file_.name, ":", item.place.line + 1)});
    }
    return absl::OkStatus();
  }

  absl::Status ReadNodes(const YamlValue& value) {
    if (value.kind != YamlValue::Kind::kMap) {
      return WrongKind(value, kNodes,
                       "a map of hosts, as in 'node1: {env: {A: 1}}' (how many: nnodes)");
    }
    for (size_t i = 0; i < value.items.size(); i += 2) {
      const YamlValue& name = value.items[i];
      const YamlValue& says = value.items[i + 1];
      if (name.kind != YamlValue::Kind::kText || name.text.empty()) {
        return WrongKind(name, kNodes, "the name of a host, or its place in the list");
      }
      RETURN_IF_ERROR(NotTwice(name, absl::StrCat("nodes ", name.text)));
      if (says.kind != YamlValue::Kind::kMap) {
        return WrongKind(says, absl::StrCat(kNodes, ": ", name.text),
                         "a map, as in '{env: {A: 1}, wdir: /data}'");
      }
      Reader node(file_.name);
      for (size_t k = 0; k < says.items.size(); k += 2) {
        RETURN_IF_ERROR(node.ReadKeyOfNode(says.items[k], says.items[k + 1]));
      }
      file_.nodes.push_back({name.text, static_cast<uint32_t>(name.place.line + 1),
                             static_cast<uint32_t>(name.place.column + 1),
                             std::move(node.file_.settings)});
    }
    return absl::OkStatus();
  }

  absl::Status ReadKeyOfNode(const YamlValue& key, const YamlValue& value) {
    const OptionRow* row =
        key.kind == YamlValue::Kind::kText ? FindOption(absl::StrCat("--", key.text)) : nullptr;
    const bool other = key.text == kCommand || key.text == kPrograms || key.text == kNodes;
    if (other || (row != nullptr && !MaySayNode(row->id))) {
      return Error(key.place,
                   absl::StrCat("'", key.text, "' holds for all nodes; a single one may say ",
                                "env, wdir, iface, nproc-per-node and prologue"));
    }
    return ReadKey(key, value);
  }

  absl::Status ReadKeyOfProgram(const YamlValue& key, const YamlValue& value) {
    const OptionRow* row =
        key.kind == YamlValue::Kind::kText ? FindOption(absl::StrCat("--", key.text)) : nullptr;
    if (key.text == kNodes || (row != nullptr && !MaySayProgram(row->id))) {
      return Error(key.place, absl::StrCat("'", key.text, "' holds for the whole job: it stands ",
                                           "beside ", kPrograms, ", not in one of them"));
    }
    if (key.text == kPrograms) {
      return Error(key.place, "a program of a list has none of its own");
    }
    return ReadKey(key, value);
  }

  // As they would be typed.
  static std::vector<std::string> WordsOf(const JobFile& program) {
    std::vector<std::string> words;
    for (const JobFileSetting& setting : program.settings) {
      const OptionRow& row = OptionOf(setting.id);
      const std::string name =
          setting.id == OptionId::kSetEnv ? "--env" : absl::StrCat("--", JobFileKey(setting.id));
      words.push_back(row.kind == ArgumentKind::kNone ? name
                                                      : absl::StrCat(name, "=", setting.text));
    }
    words.emplace_back("--");
    words.insert(words.end(), program.command.begin(), program.command.end());
    return words;
  }

  void Add(OptionId id, const YamlValue& key, const YamlValue& value, std::string text) {
    file_.settings.push_back({id, key.text, std::move(text),
                              static_cast<uint32_t>(value.place.line + 1),
                              static_cast<uint32_t>(value.place.column + 1)});
  }

  JobFile file_;
  std::map<std::string, YamlValue> seen_;
};

}  // namespace

absl::StatusOr<JobFile> ParseJobFile(absl::string_view text, const std::string& name) {
  ASSIGN_OR_RETURN(const YamlValue root, ReadYaml(text, name));
  return Reader(name).Read(root);
}

bool TakesList(OptionId id) {
  return id == OptionId::kHosts || id == OptionId::kHostfile || id == OptionId::kSshArgs ||
         id == OptionId::kExclude || id == OptionId::kWrap || id == OptionId::kShip ||
         id == OptionId::kOnExit;
}

bool MayBeInJobFile(OptionId id) {
  switch (id) {
    case OptionId::kConfig:
    case OptionId::kConfigLines:
    case OptionId::kPlan:
    case OptionId::kExplainEnv:
    case OptionId::kJson:
    case OptionId::kYaml:
    case OptionId::kHelp:
    case OptionId::kHelpAll:
    case OptionId::kVersion:
      return false;
    default:  // words of other launchers stay with their command lines
      return !JobFileKey(id).empty() && OptionOf(id).kind != ArgumentKind::kTwoWords;
  }
}

std::string JobFileKey(OptionId id) {
  for (absl::string_view name : absl::StrSplit(OptionOf(id).names, ' ')) {
    if (absl::ConsumePrefix(&name, "--")) {
      return std::string(name);
    }
  }
  return "";
}

}  // namespace muster
