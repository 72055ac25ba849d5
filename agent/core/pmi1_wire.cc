#include "agent/core/pmi1_wire.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

// The length of the word that `text` begins with: up to a space that no backslash precedes.
size_t WordLength(absl::string_view text) {
  size_t at = 0;
  while (at < text.size() && text[at] != ' ') {
    at += text[at] == '\\' && at + 1 < text.size() ? 2 : 1;
  }
  return at;
}

}  // namespace

const std::string* Pmi1Line::Find(absl::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (key == name) {
      return &value;
    }
  }
  return nullptr;
}

absl::StatusOr<Pmi1Line> ParsePmi1(absl::string_view line) {
  if (line.size() > kPmi1LineMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a line of ", line.size(), " bytes; the limit is ", kPmi1LineMax));
  }
  if (absl::StrContains(line, '\0')) {
    return absl::InvalidArgumentError("a line with a NUL");
  }
  Pmi1Line out;
  while (!line.empty()) {
    const absl::string_view word = line.substr(0, WordLength(line));
    line.remove_prefix(word.size());
    absl::ConsumePrefix(&line, " ");
    if (word.empty()) {
      continue;
    }
    const size_t equals = word.find('=');
    const absl::string_view name = word.substr(0, equals);
    const absl::string_view value =
        equals == absl::string_view::npos ? absl::string_view() : word.substr(equals + 1);
    if (!out.command.empty()) {
      out.fields.emplace_back(name, value);
    } else if (name == "cmd" && !value.empty()) {
      out.command = std::string(value);
    } else {
      return absl::InvalidArgumentError("a line that does not begin with cmd=");
    }
  }
  if (out.command.empty()) {
    return absl::InvalidArgumentError("an empty line");
  }
  return out;
}

std::string EscapePmi1(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' || c == '\\') {
      out.push_back('\\');
    }
    if (c == '\n') {
      out.append("\\n");
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string UnescapePmi1(absl::string_view value) {
  std::string out;
  for (size_t at = 0; at < value.size(); ++at) {
    if (value[at] == '\\' && at + 1 < value.size()) {
      ++at;
      out.push_back(value[at] == 'n' ? '\n' : value[at]);
    } else {
      out.push_back(value[at]);
    }
  }
  return out;
}

}  // namespace muster
