#include "launcher/schedule/hostfile.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

absl::Status Want(absl::string_view want, absl::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat("want ", want, ", got '", got, "'"));
}

absl::StatusOr<uint32_t> ParseSlots(absl::string_view text) {
  uint32_t slots = 0;
  if (!absl::SimpleAtoi(text, &slots) || slots < 1 || slots > kWorkersPerNodeMax) {
    return Want(absl::StrCat("1..", kWorkersPerNodeMax, " slots"), text);
  }
  return slots;
}

absl::StatusOr<uint16_t> ParsePort(absl::string_view text, absl::string_view behind) {
  uint32_t port = 0;
  if (!absl::SimpleAtoi(text, &port) || port < 1 || port > 65535) {
    return Want(absl::StrCat("1..65535 after ", behind), text);
  }
  return static_cast<uint16_t>(port);
}

// Takes "user@" off the front of `item`.
absl::StatusOr<std::string> TakeUser(absl::string_view& item) {
  const size_t at = item.find('@');
  if (at == absl::string_view::npos) {
    return std::string();
  }
  const absl::string_view user = item.substr(0, at);
  if (user.empty() || user[0] == '-' || absl::StrContains(item.substr(at + 1), '@')) {
    return Want("user@host", item);
  }
  item.remove_prefix(at + 1);
  return std::string(user);
}

// An IPv6 address in or without brackets; what follows it stays in `item`. "" if the item is
// something else.
std::string TakeIpv6(absl::string_view& item) {
  const bool brackets = absl::StartsWith(item, "[");
  const size_t close = brackets ? item.find(']') : item.size();
  std::string address(brackets ? item.substr(1, close - 1) : item);
  if (!IsIpv6(address)) {
    return "";
  }
  item.remove_prefix(close + (brackets ? 1 : 0));
  return address;
}

// One item: [user@]host-or-expression[:slots], or as ssh has it: ssh://[user@]host[:port].
absl::StatusOr<std::vector<HostEntry>> ParseItem(absl::string_view item) {
  const absl::string_view whole = item;
  HostEntry entry;
  const bool uri = absl::ConsumePrefix(&item, "ssh://");
  if (uri) {
    absl::ConsumeSuffix(&item, "/");
  }
  ASSIGN_OR_RETURN(entry.user, TakeUser(item));
  if (absl::StartsWith(item, "+")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", whole, "': relative hosts (+n0, +e) are not served; name the hosts themselves"));
  }
  std::vector<std::string> names;
  if (std::string address = TakeIpv6(item); !address.empty()) {
    names.push_back(std::move(address));
  } else {
    const size_t colon = item.rfind(':');
    ASSIGN_OR_RETURN(names, ExpandHostList(item.substr(0, colon)));
    item.remove_prefix(std::min(colon, item.size()));
  }
  if (!item.empty()) {
    if (!absl::ConsumePrefix(&item, ":")) {
      return Want("host or host:slots", whole);
    }
    if (uri) {
      ASSIGN_OR_RETURN(entry.port, ParsePort(item, "ssh://host:"));
    } else {
      ASSIGN_OR_RETURN(entry.slots, ParseSlots(item));
      entry.slots_given = true;
    }
  }
  std::vector<HostEntry> entries;
  for (std::string& name : names) {
    entries.push_back(entry);
    entries.back().name = std::move(name);
  }
  return entries;
}

// Appends entries; the same host again, in whatever case, adds its slots (Open MPI's rule; PBS
// lives on it).
class Merger {
 public:
  absl::Status Add(HostEntry entry) {
    const auto [it, fresh] =
        places_.try_emplace({absl::AsciiStrToLower(entry.name), entry.port}, hosts_.size());
    if (fresh) {
      if (hosts_.size() == kNodesMax) {
        return absl::InvalidArgumentError(absl::StrCat("more than ", kNodesMax, " hosts"));
      }
      hosts_.push_back(std::move(entry));
      return absl::OkStatus();
    }
    HostEntry& old = hosts_[it->second];
    if (!entry.user.empty() && !old.user.empty() && entry.user != old.user) {
      return absl::InvalidArgumentError(absl::StrCat("host '", entry.name,
                                                     "' is given twice, with user '", old.user,
                                                     "' and with user '", entry.user, "'"));
    }
    old.user = old.user.empty() ? entry.user : old.user;
    old.slots += entry.slots;
    old.slots_max =
        old.slots_max == 0 || entry.slots_max == 0 ? 0 : old.slots_max + entry.slots_max;
    old.slots_given = true;
    old.by_cpus = old.by_cpus && entry.by_cpus;
    if (old.slots > kWorkersPerNodeMax) {
      return Want(absl::StrCat("at most ", kWorkersPerNodeMax, " slots for host '", old.name, "'"),
                  absl::StrCat(old.slots));
    }
    return absl::OkStatus();
  }
  std::vector<HostEntry> Take() { return std::move(hosts_); }

 private:
  std::vector<HostEntry> hosts_;
  std::map<std::pair<std::string, uint16_t>, size_t> places_;
};

// What the words after the host say, for every host of the line.
struct LineOptions {
  HostEntry pattern;        // user, port, slots
  bool slots_word = false;  // slots= or max_slots= was there
};

absl::Status CheckOnce(bool given, absl::string_view word) {
  return given ? absl::InvalidArgumentError(
                     absl::StrCat("'", word, "' says again what the line has said: keep one"))
               : absl::OkStatus();
}

absl::Status ParseWord(absl::string_view word, LineOptions& out) {
  const size_t equals = word.find('=');
  if (equals == absl::string_view::npos) {
    return Want("slots=N, max_slots=N, user=NAME, port=N or binding=... after the host", word);
  }
  const absl::string_view key = word.substr(0, equals);
  const absl::string_view value = word.substr(equals + 1);
  if (key == "slots" || key == "cpus" || key == "cpu" || key == "count") {
    RETURN_IF_ERROR(CheckOnce(out.pattern.slots_given, word));
    ASSIGN_OR_RETURN(out.pattern.slots, ParseSlots(value));
    out.pattern.slots_given = true;
    out.slots_word = true;
  } else if (key == "max_slots" || key == "max-slots" || key == "slots_max" || key == "slots-max") {
    RETURN_IF_ERROR(CheckOnce(out.pattern.slots_max != 0, word));
    ASSIGN_OR_RETURN(out.pattern.slots_max, ParseSlots(value));
    out.slots_word = true;
  } else if (key == "user" || key == "username" || key == "user_name") {
    if (value.empty() || value[0] == '-' || absl::StrContains(value, '@')) {
      return Want("a user name after user=", value);
    }
    RETURN_IF_ERROR(CheckOnce(!out.pattern.user.empty(), word));
    out.pattern.user = std::string(value);
  } else if (key == "port") {
    RETURN_IF_ERROR(CheckOnce(out.pattern.port != 0, word));
    ASSIGN_OR_RETURN(out.pattern.port, ParsePort(value, "port="));
  } else if (key != "binding") {
    return Want("slots=N, max_slots=N, user=NAME, port=N or binding=... after the host", word);
  }
  return absl::OkStatus();
}

absl::StatusOr<LineOptions> ParseWords(const std::vector<absl::string_view>& words) {
  LineOptions out;
  uint32_t ignored = 0;
  // SGE: host slots [queue processors]
  if ((words.size() == 2 || words.size() == 4) && absl::SimpleAtoi(words[1], &ignored)) {
    ASSIGN_OR_RETURN(out.pattern.slots, ParseSlots(words[1]));
    out.pattern.slots_given = true;
    return out;
  }
  for (size_t i = 1; i < words.size(); ++i) {
    RETURN_IF_ERROR(ParseWord(words[i], out));
  }
  const HostEntry& host = out.pattern;
  if (host.slots_given && host.slots_max != 0 && host.slots > host.slots_max) {
    return Want(absl::StrCat("slots= of at most max_slots=", host.slots_max),
                absl::StrCat(host.slots));
  }
  return out;
}

absl::StatusOr<std::vector<HostEntry>> ParseLine(absl::string_view line, bool& slots_word) {
  std::vector<absl::string_view> parts = absl::StrSplit(line, '=');
  for (absl::string_view& part : parts) {
    part = absl::StripAsciiWhitespace(part);
  }
  const std::string joined = absl::StrJoin(parts, "=");  // "slots = 4" -> "slots=4"
  const std::vector<absl::string_view> words =
      absl::StrSplit(joined, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  CHECK(!words.empty());  // the caller leaves blank lines out, and "=" alone stays
  ASSIGN_OR_RETURN(const LineOptions options, ParseWords(words));
  slots_word = slots_word || options.slots_word;
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> items, SplitOutsideBrackets(words[0]));
  std::vector<HostEntry> out;
  for (absl::string_view item : items) {
    ASSIGN_OR_RETURN(const std::vector<HostEntry> entries, ParseItem(item));
    for (HostEntry entry : entries) {
      if (entry.slots_given && options.pattern.slots_given) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", item, "' has a count and the line another one: keep one"));
      }
      if (options.pattern.slots_given) {
        entry.slots = options.pattern.slots;
        entry.slots_given = true;
      }
      entry.slots_max = options.pattern.slots_max;
      entry.user = options.pattern.user.empty() ? entry.user : options.pattern.user;
      entry.port = options.pattern.port == 0 ? entry.port : options.pattern.port;
      out.push_back(std::move(entry));
    }
  }
  return out;
}

absl::Status InFile(const absl::Status& status, absl::string_view name, size_t line_number,
                    absl::string_view line) {
  return absl::Status(status.code(), absl::StrCat(name, ":", line_number, ": ", status.message(),
                                                  " (the line is ", ShowSent(line), ")"));
}

}  // namespace

absl::StatusOr<std::vector<HostEntry>> ParseHostList(absl::string_view text) {
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> items, SplitOutsideBrackets(text));
  Merger merger;
  for (absl::string_view raw : items) {
    const absl::string_view item = absl::StripAsciiWhitespace(raw);
    if (item.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an item of '", text, "' is empty: is a variable unset, or a comma too many?"));
    }
    ASSIGN_OR_RETURN(const std::vector<HostEntry> entries, ParseItem(item));
    for (const HostEntry& entry : entries) {
      RETURN_IF_ERROR(merger.Add(entry));
    }
  }
  return merger.Take();
}

absl::StatusOr<std::vector<HostEntry>> ParseHostFile(absl::string_view text,
                                                     absl::string_view name) {
  struct Numbered {
    size_t line_number;
    absl::string_view line;
    HostEntry entry;
  };
  std::vector<Numbered> entries;
  bool slots_word = false;
  size_t line_number = 0;
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");  // some editors' mark of UTF-8
  for (absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++line_number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw.substr(0, raw.find('#')));
    if (line.empty()) {
      continue;
    }
    if (std::any_of(line.begin(), line.end(),
                    [](unsigned char c) { return c != '\t' && absl::ascii_iscntrl(c); })) {
      return InFile(absl::InvalidArgumentError("want text, got other bytes: is this a host file?"),
                    name, line_number, line);
    }
    auto parsed = ParseLine(line, slots_word);
    if (!parsed.ok()) {
      return InFile(parsed.status(), name, line_number, line);
    }
    for (HostEntry& entry : *parsed) {
      entries.push_back({line_number, line, std::move(entry)});
    }
  }
  if (entries.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": names no host"));
  }
  Merger merger;
  for (Numbered& numbered : entries) {
    numbered.entry.by_cpus = slots_word && !numbered.entry.slots_given;
    if (const absl::Status added = merger.Add(std::move(numbered.entry)); !added.ok()) {
      return InFile(added, name, numbered.line_number, numbered.line);
    }
  }
  return merger.Take();
}

std::string DescribeHosts(const std::vector<HostEntry>& hosts) {
  std::string out;
  for (size_t i = 0; i < hosts.size();) {
    std::vector<std::string> names;
    size_t j = i;
    for (; j < hosts.size() && hosts[j].slots_given == hosts[i].slots_given &&
           hosts[j].slots == hosts[i].slots;
         ++j) {
      const bool ipv6 = absl::StrContains(hosts[j].name, ':');
      if (ipv6 && j > i) {
        break;
      }
      names.push_back(ipv6 ? absl::StrCat("[", hosts[j].name, "]") : hosts[j].name);
      if (ipv6) {
        ++j;
        break;
      }
    }
    const std::string group = CompressHostList(names);
    const bool counted = hosts[i].slots_given;
    if (!counted || !absl::StrContains(group, ',') || names.size() == 1) {
      absl::StrAppend(&out, out.empty() ? "" : ",", group);
      if (counted) {
        absl::StrAppend(&out, ":", hosts[i].slots);
      }
    } else {  // a count after a list would hold for its last item only
      for (const std::string& name : names) {
        absl::StrAppend(&out, out.empty() ? "" : ",", name, ":", hosts[i].slots);
      }
    }
    i = j;
  }
  return out;
}

}  // namespace muster
