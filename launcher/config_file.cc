#include "launcher/config_file.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

// The deepest of a job file is 2: a map, and in it a list or a map.
constexpr size_t kDepthMax = 8;

// Whether the quoted text that begins here goes on to the end of the file, which yaml-cpp takes for
// its end. False of what does not begin with a quote.
bool IsOpenQuote(absl::string_view text) {
  const char quote = text[0];
  if (quote != '"' && quote != '\'') {
    return false;
  }
  for (size_t i = 1; i < text.size(); ++i) {
    const bool two = i + 1 < text.size() && text[i + 1] == quote;
    if (quote == '"' ? text[i] == '\\' : text[i] == quote && two) {
      ++i;  // what \ escapes, or '', which is one of the text
    } else if (text[i] == quote) {
      return false;
    }
  }
  return true;
}

// Keeps what yaml-cpp tells as values. Its own Node would drop keys that are there twice and follow
// aliases. After the first error nothing is kept.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(absl::string_view text, const std::string& name) : text_(text), name_(name) {}

  bool ok() const { return error_.ok(); }

  absl::StatusOr<YamlValue> Take() {
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
    Add(Make(mark, YamlValue::Kind::kNothing));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Refuse(mark, "aliases (*name) are not followed: write the value again");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    CheckTag(mark, tag);
    if (tag == "!" && mark.pos >= 0 && static_cast<size_t>(mark.pos) < text_.size() &&
        IsOpenQuote(text_.substr(static_cast<size_t>(mark.pos)))) {
      Refuse(mark, absl::StrCat("the quote ", text_.substr(static_cast<size_t>(mark.pos), 1),
                                " that begins here is not closed"));
    }
    if (text.find('\0') != std::string::npos) {
      Refuse(mark, "a NUL character cannot be passed to a program");
    }
    YamlValue value = Make(mark, YamlValue::Kind::kText);
    value.text = text;
    value.plain = tag == "?";
    Add(std::move(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, YamlValue::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, YamlValue::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  static YamlValue Make(const YAML::Mark& mark, YamlValue::Kind kind) {
    YamlValue value;
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

  void Open(const YAML::Mark& mark, const std::string& tag, YamlValue::Kind kind) {
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
      YamlValue done = std::move(open_.back());
      open_.pop_back();
      Add(std::move(done));
    }
  }

  void Add(YamlValue value) {
    if (!error_.ok()) {
      return;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    YamlValue& parent = open_.back();
    if (value.kind == YamlValue::Kind::kNothing && parent.kind == YamlValue::Kind::kMap &&
        parent.items.size() % 2 == 1) {
      value.place = parent.items.back().place;  // yaml-cpp says where the next key is
    }
    parent.items.push_back(std::move(value));
  }

  const absl::string_view text_;  // borrowed from ReadYaml's caller, who outlives this
  const std::string& name_;       // likewise
  absl::Status error_;
  int documents_ = 0;
  int first_ = 0;                // where the first of them begins
  std::vector<YamlValue> open_;  // from the outermost
  YamlValue root_;
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

// yaml-cpp says what it did not find, not what stands there.
absl::string_view TabHint(absl::string_view text, int line) {
  for (; line > 0 && absl::StrContains(text, '\n'); --line) {
    text.remove_prefix(text.find('\n') + 1);
  }
  const absl::string_view before = text.substr(0, text.find_first_not_of(" \t"));
  return line == 0 && absl::StrContains(before, '\t')
             ? "; this line is indented with a tab: YAML wants spaces"
             : "";
}

}  // namespace

absl::string_view KindName(const YamlValue& value) {
  switch (value.kind) {
    case YamlValue::Kind::kNothing:
      return "nothing (null and ~ are texts in quotes only)";
    case YamlValue::Kind::kText:
      return "a text";
    case YamlValue::Kind::kList:
      return value.items.empty() ? "an empty list" : "a list";
    case YamlValue::Kind::kMap:
      return "a map";
  }
  return "?";
}

std::string At(absl::string_view name, YamlPlace place) {
  return absl::StrCat(name, ":", place.line + 1, ":", place.column + 1);
}

absl::StatusOr<YamlValue> ReadYaml(absl::string_view text, const std::string& name) {
  if (const size_t good = YamlTextBytes(text); good < text.size()) {
    const absl::string_view before = text.substr(0, good);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t column = good - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", line, ":", column, ": byte 0x",
                     absl::Hex(static_cast<unsigned char>(text[good]), absl::kZeroPad2),
                     " is not UTF-8 text: is this a YAML file?"));
  }
  TreeBuilder builder(text, name);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    // At a token that can begin no document yaml-cpp finds one empty document after another.
    while (builder.ok() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    // What was found before the text broke is nearer to the cause.
    RETURN_IF_ERROR(builder.Take().status());
    const std::string at =
        e.mark.is_null() ? name : At(name, YamlPlace{e.mark.line, e.mark.column});
    return absl::InvalidArgumentError(absl::StrCat(
        at, ": not YAML: ", e.msg, e.mark.is_null() ? "" : TabHint(text, e.mark.line)));
  }
  return builder.Take();
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
