#include "launcher/config_file.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "launcher/option_values.h"
#include "launcher/options.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr absl::string_view kCommand = "command";
// The deepest of ours is 2: a map, and in it a list or a map.
constexpr size_t kDepthMax = 8;

struct Place {  // from 0, as yaml-cpp counts
  int line = 0;
  int column = 0;
};

struct Value {
  enum class Kind : uint8_t { kNothing, kText, kList, kMap };
  Kind kind = Kind::kNothing;
  std::string text;
  bool plain = false;  // without quotes
  Place place;
  std::vector<Value> items;  // of a map: key, value, key, value
};

absl::string_view KindName(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kNothing:
      return "nothing";
    case Value::Kind::kText:
      return "a text";
    case Value::Kind::kList:
      return "a list";
    case Value::Kind::kMap:
      return "a map";
  }
  return "?";
}

std::string At(absl::string_view name, Place place) {
  return absl::StrCat(name, ":", place.line + 1, ":", place.column + 1);
}

// Keeps what yaml-cpp tells as values. Its own Node would drop keys that are there twice and follow
// aliases. After the first error nothing is kept.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& name) : name_(name) {}

  bool ok() const { return error_.ok(); }

  absl::StatusOr<Value> Take() {
    RETURN_IF_ERROR(error_);
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      Refuse(mark, mark.pos == first_ ? "not YAML: no value begins like this"
                                      : "a second document begins here: a job file has one");
    }
    first_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    Add(Make(mark, Value::Kind::kNothing));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Refuse(mark, "aliases (*name) are not followed: write the value again");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    CheckTag(mark, tag);
    if (text.find('\0') != std::string::npos) {
      Refuse(mark, "a NUL character cannot be passed to a program");
    }
    Value value = Make(mark, Value::Kind::kText);
    value.text = text;
    value.plain = tag == "?";
    Add(std::move(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, Value::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, Value::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  static Value Make(const YAML::Mark& mark, Value::Kind kind) {
    Value value;
    value.kind = kind;
    value.place = {mark.line, mark.column};
    return value;
  }

  void Refuse(const YAML::Mark& mark, absl::string_view why) {
    if (error_.ok()) {
      error_ =
          absl::InvalidArgumentError(absl::StrCat(At(name_, {mark.line, mark.column}), ": ", why));
    }
  }

  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") {  // none, plain, quoted
      Refuse(mark, "tags (!name) are not used here: leave it out");
    }
  }

  void Open(const YAML::Mark& mark, const std::string& tag, Value::Kind kind) {
    CheckTag(mark, tag);
    if (open_.size() == kDepthMax) {
      Refuse(mark, absl::StrCat("lists and maps are at most ", kDepthMax, " deep"));
    }
    if (error_.ok()) {
      open_.push_back(Make(mark, kind));
    }
  }

  void Close() {
    if (error_.ok()) {
      Value done = std::move(open_.back());
      open_.pop_back();
      Add(std::move(done));
    }
  }

  void Add(Value value) {
    if (!error_.ok()) {
      return;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Value& parent = open_.back();
    if (value.kind == Value::Kind::kNothing && parent.kind == Value::Kind::kMap &&
        parent.items.size() % 2 == 1) {
      value.place = parent.items.back().place;  // yaml-cpp says where the next key is
    }
    parent.items.push_back(std::move(value));
  }

  const std::string& name_;  // borrowed from ReadYaml's caller, who outlives this
  absl::Status error_;
  int documents_ = 0;
  int first_ = 0;            // where the first of them begins
  std::vector<Value> open_;  // from the outermost
  Value root_;
};

absl::StatusOr<Value> ReadYaml(absl::string_view text, const std::string& name) {
  if (const size_t good = YamlTextBytes(text); good < text.size()) {
    const absl::string_view before = text.substr(0, good);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t column = good - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", line, ":", column, ": byte 0x",
                     absl::Hex(static_cast<unsigned char>(text[good]), absl::kZeroPad2),
                     " is not UTF-8 text: is this a YAML file?"));
  }
  TreeBuilder builder(name);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    // At a token that can begin no document yaml-cpp finds one empty document after another.
    while (builder.ok() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    // What was found before the text broke is nearer to the cause.
    RETURN_IF_ERROR(builder.Take().status());
    const std::string at = e.mark.is_null() ? name : At(name, Place{e.mark.line, e.mark.column});
    return absl::InvalidArgumentError(absl::StrCat(at, ": not YAML: ", e.msg));
  }
  return builder.Take();
}

// Options whose values add up may be given as a list.
bool TakesList(OptionId id) {
  return id == OptionId::kHosts || id == OptionId::kHostfile || id == OptionId::kSshArgs;
}

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
  return absl::StrReplaceAll(OptionHint(absl::StrCat("--", key)),
                             {{"did you mean --", "did you mean "}});
}

bool IsBool(const Value& value, bool& on) {
  const std::string word = absl::AsciiStrToLower(value.text);
  on = word == "true";
  return value.kind == Value::Kind::kText && value.plain && (on || word == "false");
}

class Reader {
 public:
  explicit Reader(const std::string& name) { file_.name = name; }

  absl::StatusOr<JobFile> Read(const Value& root) {
    if (root.kind != Value::Kind::kMap) {
      return Error(root.place,
                   absl::StrCat("want keys with values, as in 'nnodes: 2', got ", KindName(root)));
    }
    for (size_t i = 0; i < root.items.size(); i += 2) {
      RETURN_IF_ERROR(ReadKey(root.items[i], root.items[i + 1]));
    }
    return std::move(file_);
  }

 private:
  absl::Status Error(Place place, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(At(file_.name, place), ": ", what));
  }

  absl::Status WrongKind(const Value& value, absl::string_view key, absl::string_view want) const {
    bool on = false;
    const std::string got =
        IsBool(value, on)                  ? absl::StrCat(value.text, " (quote it if it is a text)")
        : value.kind == Value::Kind::kText ? absl::StrCat("'", Shown(value.text), "'")
                                           : std::string(KindName(value));
    return Error(value.place, absl::StrCat(key, ": want ", want, ", got ", got));
  }

  // `same`: what both spellings of a key have in common.
  absl::Status NotTwice(const Value& key, const std::string& same) {
    const auto [it, fresh] = seen_.emplace(same, key);
    if (fresh) {
      return absl::OkStatus();
    }
    const Value& first = it->second;
    return Error(key.place, absl::StrCat("'", key.text, "' is here twice: line ",
                                         first.place.line + 1, " has '", first.text, "'"));
  }

  absl::Status ReadKey(const Value& key, const Value& value) {
    if (key.kind != Value::Kind::kText) {
      return Error(key.place, absl::StrCat("want the name of an option, got ", KindName(key)));
    }
    if (key.text == kCommand) {
      RETURN_IF_ERROR(NotTwice(key, key.text));
      return ReadCommand(value);
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

  absl::Status ReadFlag(const OptionRow& row, const Value& key, const Value& value) {
    bool on = false;
    if (!IsBool(value, on)) {
      return WrongKind(value, key.text, "true or false (without quotes)");
    }
    if (on) {
      Add(row.id, key, value, value.text);
    }
    return absl::OkStatus();
  }

  absl::Status ReadValue(const OptionRow& row, const Value& key, const Value& value) {
    if (value.kind == Value::Kind::kList && TakesList(row.id)) {
      if (value.items.empty()) {
        return Error(value.place, absl::StrCat(key.text, ": want ", row.value_name,
                                               ", or a list, got an empty list"));
      }
      for (const Value& item : value.items) {
        if (item.kind != Value::Kind::kText) {
          return WrongKind(item, key.text, "a list of texts");
        }
        // A list has the words as they are; --ssh-args has them as a shell would read them.
        Add(row.id, key, item, row.id == OptionId::kSshArgs ? ShellQuote(item.text) : item.text);
      }
      return absl::OkStatus();
    }
    bool on = false;
    if (value.kind != Value::Kind::kText || IsBool(value, on)) {
      return WrongKind(
          value, key.text,
          TakesList(row.id) ? absl::StrCat(row.value_name, ", or a list") : row.value_name);
    }
    Add(row.id, key, value, value.text);
    return absl::OkStatus();
  }

  absl::Status ReadEnv(const Value& key, const Value& value) {
    if (value.kind != Value::Kind::kMap) {
      return WrongKind(value, key.text, "a map of NAME: value");
    }
    for (size_t i = 0; i < value.items.size(); i += 2) {
      const Value& name = value.items[i];
      const Value& text = value.items[i + 1];
      if (name.kind != Value::Kind::kText || name.text.empty() ||
          absl::StrContains(name.text, '=')) {
        return WrongKind(name, key.text, "the name of a variable");
      }
      RETURN_IF_ERROR(NotTwice(name, absl::StrCat("env ", name.text)));
      if (text.kind == Value::Kind::kText) {
        Add(OptionId::kSetEnv, key, text, absl::StrCat(name.text, "=", text.text));
      } else if (text.kind == Value::Kind::kNothing) {
        Add(OptionId::kSetEnv, key, name, name.text);
      } else {
        return WrongKind(text, absl::StrCat(key.text, ": ", name.text), "a text, or nothing");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadCommand(const Value& value) {
    constexpr absl::string_view kWant = "a list of words, or one text";
    if (value.kind == Value::Kind::kText) {
      const std::string name = absl::StrCat(At(file_.name, value.place), ": ", kCommand);
      ASSIGN_OR_RETURN(file_.command, ParseWords({name, value.text}));
    } else if (value.kind == Value::Kind::kList) {
      for (const Value& word : value.items) {
        if (word.kind != Value::Kind::kText) {
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

  void Add(OptionId id, const Value& key, const Value& value, std::string text) {
    file_.settings.push_back({id, key.text, std::move(text),
                              static_cast<uint32_t>(value.place.line + 1),
                              static_cast<uint32_t>(value.place.column + 1)});
  }

  JobFile file_;
  std::map<std::string, Value> seen_;
};

// Bytes of the character that `text` begins with, 0 if it begins with none that YAML holds (RFC
// 3629 section 4; overlong forms and surrogates are none).
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) {
    return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  }
  if (first >= 0xc2 && first < 0xe0) {
    return follows(1) ? 2 : 0;
  }
  if (first >= 0xe0 && first < 0xf0) {
    const bool overlong = first == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = first == 0xed && byte(1) >= 0xa0;
    return !overlong && !surrogate && follows(1) && follows(2) ? 3 : 0;
  }
  const bool outside = first < 0xf0 || first > 0xf4 || (first == 0xf0 && byte(1) < 0x90) ||
                       (first == 0xf4 && byte(1) >= 0x90);
  return !outside && follows(1) && follows(2) && follows(3) ? 4 : 0;
}

}  // namespace

absl::StatusOr<JobFile> ParseJobFile(absl::string_view text, const std::string& name) {
  ASSIGN_OR_RETURN(const Value root, ReadYaml(text, name));
  return Reader(name).Read(root);
}

bool MayBeInJobFile(OptionId id) {
  switch (id) {
    case OptionId::kConfig:
    case OptionId::kPlan:
    case OptionId::kExplainEnv:
    case OptionId::kJson:
    case OptionId::kYaml:
    case OptionId::kHelp:
    case OptionId::kHelpAll:
    case OptionId::kVersion:
      return false;
    default:
      return true;
  }
}

std::string JobFileKey(OptionId id) {
  for (absl::string_view name : absl::StrSplit(OptionOf(id).names, ' ')) {
    if (absl::ConsumePrefix(&name, "--")) {
      return std::string(name);
    }
  }
  return "";  // no row without a long name; a test walks them
}

size_t YamlTextBytes(absl::string_view text) {
  size_t good = 0;
  while (good < text.size()) {
    const size_t bytes = CharacterBytes(text.substr(good));
    if (bytes == 0) {
      break;
    }
    good += bytes;
  }
  return good;
}

}  // namespace muster
