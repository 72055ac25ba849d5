#include "launcher/schedule/rankfile.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kForm = "want 'rank N=HOST' or 'rank N=HOST slot=LIST'";

absl::Status LineError(absl::string_view name, size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ":", line, ": ", what));
}

// "0", "1-3,7", "0:0-3", "p0,p1", "*", as hwloc and Open MPI count them.
bool IsSlotList(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || absl::StrContains(",-:*pP", c);
  });
}

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// The words of a line, with '=' as a word of its own.
std::vector<std::string> WordsOf(absl::string_view line) {
  const std::string spaced = absl::StrReplaceAll(line.substr(0, line.find('#')), {{"=", " = "}});
  return absl::StrSplit(spaced, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
}

// Rank and place of a line that is not blank.
absl::StatusOr<std::pair<uint32_t, RankPlace>> ParseLine(const std::vector<std::string>& words,
                                                         absl::string_view name, size_t line) {
  const bool whole = words.size() == 4 || words.size() == 7;
  if (!whole || absl::AsciiStrToLower(words[0]) != "rank" || words[2] != "=" || words[3] == "=") {
    return LineError(name, line, kForm);
  }
  uint32_t rank = 0;
  if (!IsNumber(words[1]) || !absl::SimpleAtoi(words[1], &rank) || rank >= kWorldSizeMax) {
    return LineError(name, line,
                     absl::StrCat("want a rank 0..", kWorldSizeMax - 1, ", got '", words[1], "'"));
  }
  RankPlace place;
  place.line = line;
  absl::string_view host = words[3];
  if (absl::ConsumePrefix(&host, "+n")) {
    uint32_t index = 0;
    if (!IsNumber(host) || !absl::SimpleAtoi(host, &index)) {
      return LineError(
          name, line,
          absl::StrCat("want a host, or +n0 for the first of the list, got '", words[3], "'"));
    }
    place.index = index;
  } else if (const absl::Status good = CheckHostName(host); !good.ok()) {
    return LineError(name, line, good.message());
  } else {
    place.host = std::string(host);
  }
  if (words.size() == 7) {
    const std::string key = absl::AsciiStrToLower(words[4]);
    if ((key != "slot" && key != "slots") || words[5] != "=") {
      return LineError(name, line, kForm);
    }
    if (!IsSlotList(words[6])) {
      return LineError(
          name, line,
          absl::StrCat("slot: want numbers as in 0, 0-3 or 1:0,2, got '", words[6], "'"));
    }
    place.slots = true;
  }
  return std::make_pair(rank, std::move(place));
}

}  // namespace

absl::StatusOr<std::vector<RankPlace>> ParseRankFile(absl::string_view text,
                                                     absl::string_view name) {
  std::map<uint32_t, RankPlace> ranks;
  size_t line = 0;
  for (const absl::string_view text_of_line : absl::StrSplit(text, '\n')) {
    ++line;
    const std::vector<std::string> words = WordsOf(text_of_line);
    if (words.empty()) {
      continue;
    }
    ASSIGN_OR_RETURN(const auto parsed, ParseLine(words, name, line));
    const auto [it, fresh] = ranks.insert(parsed);
    if (!fresh) {
      return LineError(name, line,
                       absl::StrCat("rank ", parsed.first, " has a place already, in ", "line ",
                                    it->second.line));
    }
  }
  if (ranks.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": want a line 'rank 0=HOST' for each rank, got none"));
  }
  std::vector<RankPlace> out;
  for (auto& [rank, place] : ranks) {
    if (rank != out.size()) {
      return LineError(name, place.line,
                       absl::StrCat("rank ", rank, " is here, but no line places rank ", out.size(),
                                    ": ranks are 0, 1, 2 ... without a gap"));
    }
    out.push_back(std::move(place));
  }
  return out;
}

}  // namespace muster
