#include "launcher/option_values.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/known_masters.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::Duration kTimeMax = absl::Hours(24 * 3650);
constexpr absl::string_view kTimeForms = "seconds, or a time as in 90s, 30m, 1h30m, 2d or d:h:m:s";

// d:h:m:s, h:m:s or m:s; false if it is none.
bool ParseColons(absl::string_view text, absl::Duration& out) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  constexpr absl::Duration kUnits[] = {absl::Seconds(1), absl::Minutes(1), absl::Hours(1),
                                       absl::Hours(24)};
  if (parts.size() > 4) {
    return false;
  }
  out = absl::ZeroDuration();
  for (size_t i = 0; i < parts.size(); ++i) {
    uint32_t number = 0;
    if (parts[i].empty() || !absl::ascii_isdigit(static_cast<unsigned char>(parts[i][0])) ||
        !absl::SimpleAtoi(parts[i], &number)) {
      return false;
    }
    out += number * kUnits[parts.size() - 1 - i];
  }
  return true;
}

std::string WithoutUnderscores(absl::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

}  // namespace

absl::Status WantError(const OptionValue& value, absl::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrCat(value.name, ": want ", want, ", got '", value.text, "'"));
}

absl::Status NotEmpty(const OptionValue& value, std::string& out) {
  if (value.text.empty()) {
    return WantError(value, "a text that is not empty");
  }
  out = std::string(value.text);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> ParseNumber(const OptionValue& value, uint32_t low, uint32_t high) {
  uint32_t number = 0;
  if (!absl::SimpleAtoi(value.text, &number) || number < low || number > high) {
    return WantError(value, absl::StrCat(low, "..", high));
  }
  return number;
}

absl::StatusOr<bool> ParseBool(const OptionValue& value) {
  bool out = false;
  if (value.text.empty()) {
    return false;
  }
  if (!absl::SimpleAtob(value.text, &out)) {
    return WantError(value, "0 or 1");
  }
  return out;
}

absl::StatusOr<absl::Duration> ParseTime(const OptionValue& value) {
  absl::Duration out;
  double number = 0;
  const absl::string_view text = value.text;
  const bool starts_well =
      !text.empty() && (absl::ascii_isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.');
  absl::string_view days = text;
  if (!starts_well) {
    return WantError(value, kTimeForms);
  }
  if (absl::StrContains(text, ':')) {
    if (!ParseColons(text, out)) {
      return WantError(value, kTimeForms);
    }
  } else if (absl::SimpleAtod(text, &number)) {
    out = absl::Seconds(number);
  } else if (absl::ConsumeSuffix(&days, "d") && absl::SimpleAtod(days, &number)) {
    out = absl::Hours(24 * number);
  } else if (!absl::ParseDuration(text, &out)) {
    return WantError(value, kTimeForms);
  }
  if (!(out <= kTimeMax)) {
    return WantError(value, "a time of at most 10 years");
  }
  return out;
}

absl::StatusOr<uint64_t> ParseSize(const OptionValue& value) {
  std::string text = absl::AsciiStrToUpper(value.text);
  absl::string_view number = text;
  if (absl::EndsWith(number, "IB")) {
    number.remove_suffix(2);
  } else {
    absl::ConsumeSuffix(&number, "B");
  }
  int shift = 0;
  constexpr absl::string_view kUnits = "KMGT";
  if (!number.empty()) {
    const size_t unit = kUnits.find(number.back());
    if (unit != absl::string_view::npos) {
      shift = 10 * static_cast<int>(unit + 1);
      number.remove_suffix(1);
    }
  }
  uint64_t out = 0;
  if (number.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(number[0])) ||
      !absl::SimpleAtoi(number, &out) || out > (uint64_t{1} << (62 - shift))) {
    return WantError(value, "bytes, as in 512M, 1G or 65536 (at most 4194304T)");
  }
  return out << shift;
}

absl::StatusOr<StreamSelect> ParseStreams(const OptionValue& value) {
  constexpr absl::string_view kWant =
      "0 none, 1 stdout, 2 stderr, 3 both, or by local rank as in 0:3,1:2";
  StreamSelect out;
  const auto streams = [](absl::string_view text, uint8_t& bits) {
    bits = text.size() == 1 && text[0] >= '0' && text[0] <= '3'
               ? static_cast<uint8_t>(text[0] - '0')
               : 255;
    return bits != 255;
  };
  if (!absl::StrContains(value.text, ':')) {
    if (!streams(value.text, out.all)) {
      return WantError(value, kWant);
    }
    return out;
  }
  for (absl::string_view part : absl::StrSplit(value.text, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    uint32_t rank = 0;
    uint8_t bits = 0;
    if (!absl::SimpleAtoi(pair.first, &rank) || rank >= kWorkersPerNodeMax ||
        !streams(pair.second, bits)) {
      return WantError(value, kWant);
    }
    out.by_local_rank[rank] = bits;
  }
  return out;
}

absl::StatusOr<std::vector<uint32_t>> ParseRanks(const OptionValue& value) {
  std::set<uint32_t> ranks;
  for (absl::string_view part : absl::StrSplit(value.text, ',')) {
    const size_t dash = part.find('-');
    uint32_t low = 0;
    uint32_t high = 0;
    const absl::string_view end = dash == absl::string_view::npos ? part : part.substr(dash + 1);
    if (!absl::SimpleAtoi(part.substr(0, dash), &low) || !absl::SimpleAtoi(end, &high) ||
        high < low || high >= kWorldSizeMax) {
      return WantError(value, "ranks, as in 0,3-5");
    }
    for (uint32_t rank = low; rank <= high; ++rank) {
      ranks.insert(rank);
    }
  }
  return std::vector<uint32_t>(ranks.begin(), ranks.end());
}

absl::StatusOr<std::vector<std::string>> ParseFilters(const OptionValue& value) {
  const std::vector<std::string> words = absl::StrSplit(value.text, ',', absl::SkipWhitespace());
  if (words.empty() || words.size() > kLineFiltersMax) {
    return WantError(value, absl::StrCat("1..", kLineFiltersMax,
                                         " texts to look for, with commas between them"));
  }
  return words;
}

absl::StatusOr<std::map<std::string, std::string>> ParsePairs(const OptionValue& value) {
  std::map<std::string, std::string> out;
  for (absl::string_view part : absl::StrSplit(value.text, ',', absl::SkipWhitespace())) {
    const size_t equals = part.find('=');
    const absl::string_view key = absl::StripAsciiWhitespace(part.substr(0, equals));
    if (equals == absl::string_view::npos || key.empty()) {
      return WantError(value, "key=value,key=value");
    }
    out[std::string(key)] = std::string(absl::StripAsciiWhitespace(part.substr(equals + 1)));
  }
  return out;
}

absl::StatusOr<uint16_t> ParsePort(const OptionValue& value) {
  uint32_t port = 0;
  if (!absl::SimpleAtoi(value.text, &port) || port > 65535 || (port != 0 && port < 1024)) {
    return WantError(
        value, "a port 1024..65535 (0 = any that is free; lower ones belong to system services)");
  }
  return static_cast<uint16_t>(port);
}

absl::StatusOr<PortRange> ParsePortRange(const OptionValue& value) {
  constexpr absl::string_view kWant =
      "LOW-HIGH, ports 1024..65535, as in 20000-20100 (lower ones belong to system services)";
  const std::vector<absl::string_view> ends = absl::StrSplit(value.text, absl::ByAnyChar("-:"));
  uint32_t low = 0;
  uint32_t high = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &low) || !absl::SimpleAtoi(ends[1], &high)) {
    return WantError(value, kWant);
  }
  if (low == 0 && high == 0) {  // as MPICH has it: any
    return PortRange();
  }
  if (low < 1024 || high > 65535 || low > high) {
    return WantError(value, kWant);
  }
  return PortRange{static_cast<uint16_t>(low), static_cast<uint16_t>(high)};
}

absl::StatusOr<Endpoint> ParseEndpoint(const OptionValue& value, uint16_t port_default) {
  constexpr absl::string_view kWant = "HOST:PORT, [IPV6]:PORT or file:///path";
  Endpoint out;
  out.port = port_default;
  absl::string_view text = value.text;
  if (absl::ConsumePrefix(&text, "file://")) {
    if (!absl::StartsWith(text, "/")) {
      return WantError(value, "an absolute path after file://");
    }
    out.file = std::string(text);
    return out;
  }
  absl::string_view host = text;
  absl::string_view port;
  const auto colons = std::count(text.begin(), text.end(), ':');
  if (absl::ConsumePrefix(&host, "[")) {
    const size_t close = host.find(']');
    if (close == absl::string_view::npos) {
      return WantError(value, kWant);
    }
    port = host.substr(close + 1);
    host = host.substr(0, close);
    if (!port.empty() && (port.size() == 1 || !absl::ConsumePrefix(&port, ":"))) {
      return WantError(value, kWant);
    }
  } else if (colons == 1) {
    port = text.substr(text.find(':') + 1);
    host = text.substr(0, text.find(':'));
  }
  if (!CheckHostName(host).ok() || (absl::EndsWith(text, ":") && colons < 2)) {
    return WantError(value, kWant);
  }
  out.host = std::string(host);
  if (!port.empty()) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(port, &number)) {
      return WantError(value, kWant);
    }
    const std::string name = absl::StrCat(value.name, " ", value.text);
    ASSIGN_OR_RETURN(out.port, ParsePort({name, port}));
  }
  return out;
}

absl::StatusOr<std::vector<Endpoint>> ParseEndpoints(const OptionValue& value,
                                                     uint16_t port_default) {
  constexpr size_t kEndpointsMax = 16;
  if (absl::StartsWith(value.text, "file://")) {
    ASSIGN_OR_RETURN(Endpoint file, ParseEndpoint(value, port_default));
    return std::vector<Endpoint>{std::move(file)};
  }
  std::vector<Endpoint> out;
  for (const std::string& text : std::vector<std::string>(absl::StrSplit(value.text, ','))) {
    ASSIGN_OR_RETURN(Endpoint one, ParseEndpoint({value.name, text}, port_default));
    out.push_back(std::move(one));
  }
  const bool many = out.size() > 1;
  if (many && std::any_of(out.begin(), out.end(),
                          [](const Endpoint& one) { return one.port == 0 || !one.file.empty(); })) {
    return WantError(value, "a HOST:PORT for each, with a port that every node knows");
  }
  if (out.size() > kEndpointsMax) {
    return WantError(value, absl::StrCat("at most ", kEndpointsMax, " addresses"));
  }
  return out;
}

absl::StatusOr<std::string> ParseFingerprint(const OptionValue& value) {
  return IsFingerprint(value.text)
             ? absl::StatusOr<std::string>(std::string(value.text))
             : WantError(value,
                         "SHA256: and 43 characters, as muster-rendezvous says it at its start");
}

absl::StatusOr<size_t> ParseWord(const OptionValue& value,
                                 absl::Span<const absl::string_view> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (WithoutUnderscores(absl::AsciiStrToLower(value.text)) == words[i]) {
      return i;
    }
  }
  return WantError(value, absl::StrJoin(words, ", "));
}

absl::StatusOr<std::vector<std::string>> ParseWords(const OptionValue& value) {
  std::vector<std::string> words;
  std::string word;
  bool begun = false;
  char quote = 0;
  for (size_t i = 0; i < value.text.size(); ++i) {
    const char c = value.text[i];
    if (c == '\\' && quote != '\'' && i + 1 < value.text.size()) {
      word += value.text[++i];
      begun = true;
    } else if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote == 0 ? c : '\0';
      begun = true;
    } else if (quote == 0 && absl::ascii_isspace(static_cast<unsigned char>(c))) {
      if (begun) {
        words.push_back(std::exchange(word, ""));
      }
      begun = false;
    } else {
      word += c;
      begun = true;
    }
  }
  if (quote != 0) {
    return WantError(value, "every quote closed");
  }
  if (begun) {
    words.push_back(word);
  }
  return words;
}

// Optimal string alignment: Damerau 1964, Wagner & Fischer 1974.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    d[i][0] = i;
  }
  for (size_t j = 0; j <= b.size(); ++j) {
    d[0][j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace muster
