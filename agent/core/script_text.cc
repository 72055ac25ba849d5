#include "agent/core/script_text.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

constexpr absl::string_view kInit = "init_process_group";
constexpr absl::string_view kTcp = "tcp://";
constexpr size_t kLineShown = 80;

bool IsQuote(char c) { return c == '"' || c == '\''; }

// Behind the name in quotes: `] = value`, not `] == value`, or `, value` of a putenv.
bool IsSetBehind(absl::string_view rest, bool by_call) {
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (by_call) {
    return absl::StartsWith(rest, ",");
  }
  if (!absl::ConsumePrefix(&rest, "]")) {
    return false;
  }
  rest = absl::StripLeadingAsciiWhitespace(rest);
  return absl::StartsWith(rest, "=") && !absl::StartsWith(rest, "==");
}

bool Sets(absl::string_view line, absl::string_view name) {
  for (size_t at = line.find(name); at != absl::string_view::npos; at = line.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool quoted =
        at > 0 && end < line.size() && IsQuote(line[at - 1]) && line[end] == line[at - 1];
    if (!quoted) {
      continue;
    }
    const absl::string_view before = line.substr(0, at - 1);
    const bool by_call = absl::EndsWith(before, "putenv(");
    if ((by_call || absl::EndsWith(before, "environ[")) &&
        IsSetBehind(line.substr(end + 1), by_call)) {
      return true;
    }
  }
  return false;
}

// "'MASTER_ADDR' not in os.environ" and its like.
bool AsksFor(absl::string_view script, absl::string_view name) {
  return absl::StrContains(script, absl::StrCat(name, "' not in")) ||
         absl::StrContains(script, absl::StrCat(name, "\" not in"));
}

// "tcp://HOST:PORT" in it, both spelled out; "" = none.
absl::string_view TcpAddress(absl::string_view text) {
  const auto is_host = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  };
  for (size_t at = text.find(kTcp); at != absl::string_view::npos; at = text.find(kTcp, at + 1)) {
    size_t end = at + kTcp.size();
    if (end < text.size() && text[end] == '[') {
      end = text.find(']', end);
      end = end == absl::string_view::npos ? text.size() : end + 1;
    }
    while (end < text.size() && is_host(text[end])) {
      ++end;
    }
    const size_t colon = end;
    if (colon == at + kTcp.size() || colon >= text.size() || text[colon] != ':') {
      continue;
    }
    end = colon + 1;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) {
      ++end;
    }
    if (end > colon + 1) {
      return text.substr(at, end - at);
    }
  }
  return "";
}

}  // namespace

bool IsPythonName(absl::string_view path) {
  absl::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 == 0
  if (!absl::ConsumePrefix(&name, "python") && !absl::ConsumePrefix(&name, "pypy")) {
    return false;
  }
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.';
  });
}

PythonCommand ParsePythonCommand(const std::vector<std::string>& argv) {
  for (size_t i = 1; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (word == "-m" && i + 1 < argv.size()) {
      return {"", argv[i + 1]};
    }
    if (word == "-c" || word == "-") {
      return {};
    }
    if (word == "-W" || word == "-X" || word == "--check-hash-based-pycs") {
      ++i;
    } else if (!absl::StartsWith(word, "-")) {
      return {word, ""};
    }
  }
  return {};
}

std::string OwnMeetingPlace(absl::string_view script, const std::vector<std::string>& arguments) {
  const bool meets = absl::StrContains(script, kInit);
  const bool gives_address = !AsksFor(script, "MASTER_ADDR");
  const bool gives_port = !AsksFor(script, "MASTER_PORT");
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(script, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(line, "#")) {
      continue;
    }
    if ((gives_address && Sets(line, "MASTER_ADDR")) || (gives_port && Sets(line, "MASTER_PORT")) ||
        (meets && !TcpAddress(line).empty())) {
      return absl::StrCat("line ", number, ": ", line.substr(0, kLineShown),
                          line.size() > kLineShown ? "..." : "");
    }
  }
  for (const std::string& word : arguments) {
    if (const absl::string_view address = TcpAddress(word); meets && !address.empty()) {
      return absl::StrCat("its argument ", address);
    }
  }
  return "";
}

bool StartsRanks(absl::string_view script) {
  const bool spawns = absl::StrContains(script, "mp.spawn(") ||
                      absl::StrContains(script, "multiprocessing.spawn(") ||
                      absl::StrContains(script, "mp.start_processes(");
  return spawns && absl::StrContains(script, kInit);
}

}  // namespace muster
