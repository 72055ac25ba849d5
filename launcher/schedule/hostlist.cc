#include "launcher/schedule/hostlist.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kHostNameMax = 253;  // DNS
constexpr size_t kDigitsMax = 18;     // of a number in a range: fits uint64 without overflow

struct Range {
  uint64_t lo = 0;
  uint64_t hi = 0;
  size_t width = 1;  // digits of lo as written
};
struct Piece {  // literal text, or a bracket group
  std::string text;
  std::vector<Range> ranges;
};

bool IsPlainName(absl::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("._-", static_cast<char>(c));
  });
  return plain && !name.empty() && name.size() <= kHostNameMax && name[0] != '-';
}

bool AllDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

std::string Padded(uint64_t value, size_t width) {
  return absl::StrFormat("%0*d", static_cast<int>(width), value);
}

absl::StatusOr<Range> ParseRange(absl::string_view text) {
  const size_t dash = text.find('-');
  const absl::string_view lo = text.substr(0, dash);
  const absl::string_view hi = dash == absl::string_view::npos ? lo : text.substr(dash + 1);
  Range range;
  if (!AllDigits(lo) || !AllDigits(hi) || lo.size() > kDigitsMax || hi.size() > kDigitsMax ||
      !absl::SimpleAtoi(lo, &range.lo) || !absl::SimpleAtoi(hi, &range.hi)) {
    return absl::InvalidArgumentError(
        absl::StrCat("want a number or LOW-HIGH in brackets, got '", text, "'"));
  }
  if (range.hi < range.lo) {
    return absl::InvalidArgumentError(absl::StrCat("the range '", text, "' runs backwards"));
  }
  range.width = lo.size();
  return range;
}

absl::StatusOr<std::vector<Piece>> ParseItem(absl::string_view item) {
  std::vector<Piece> pieces;
  while (!item.empty()) {
    const size_t open = item.find('[');
    if (open != 0) {
      pieces.push_back({std::string(item.substr(0, open)), {}});
      item.remove_prefix(open == absl::string_view::npos ? item.size() : open);
      continue;
    }
    const size_t close = item.find(']');
    Piece group;
    for (absl::string_view part : absl::StrSplit(item.substr(1, close - 1), ',')) {
      ASSIGN_OR_RETURN(const Range range, ParseRange(part));
      group.ranges.push_back(range);
    }
    pieces.push_back(std::move(group));
    item.remove_prefix(close + 1);
  }
  return pieces;
}

// Names that the item stands for, or anything above `limit` when there are more.
uint64_t CountNames(const std::vector<Piece>& pieces, uint64_t limit) {
  uint64_t product = 1;
  for (const Piece& piece : pieces) {
    if (piece.ranges.empty()) {
      continue;
    }
    uint64_t sum = 0;
    for (const Range& range : piece.ranges) {
      sum += std::min(range.hi - range.lo + 1, limit + 1);  // both at most limit + 1: no overflow
      sum = std::min(sum, limit + 1);
    }
    product = std::min(product * sum, limit + 1);
  }
  return product;
}

std::vector<std::string> Multiply(const std::vector<Piece>& pieces) {
  std::vector<std::string> names = {""};
  for (const Piece& piece : pieces) {
    if (piece.ranges.empty()) {
      for (std::string& name : names) {
        name += piece.text;
      }
      continue;
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const Range& range : piece.ranges) {
        for (uint64_t v = range.lo; v <= range.hi; ++v) {
          longer.push_back(absl::StrCat(name, Padded(v, range.width)));
        }
      }
    }
    names = std::move(longer);
  }
  return names;
}

enum class Groups { kAnywhere, kAtEnd };  // of a name

// One digit group of a name: [begin, end).
struct DigitGroup {
  size_t begin = 0;
  size_t end = 0;
};

// The digit group in which `a` and `b` differ when everything else is equal and b's number is a's
// plus one, written as the range grammar writes it; nullopt otherwise.
std::optional<DigitGroup> NextInRange(absl::string_view a, absl::string_view b, size_t width,
                                      Groups groups) {
  size_t first = 0;
  while (first < a.size() && first < b.size() && a[first] == b[first]) {
    ++first;
  }
  size_t begin = first;
  while (begin > 0 && absl::ascii_isdigit(static_cast<unsigned char>(a[begin - 1]))) {
    --begin;
  }
  const auto digits_end = [begin](absl::string_view text) {
    size_t end = begin;
    while (end < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[end]))) {
      ++end;
    }
    return end;
  };
  const size_t a_end = digits_end(a);
  const size_t b_end = digits_end(b);
  uint64_t low = 0;
  if (a_end == begin || a_end - begin > kDigitsMax || a.substr(a_end) != b.substr(b_end) ||
      (groups == Groups::kAtEnd && a_end != a.size()) ||
      !absl::SimpleAtoi(a.substr(begin, a_end - begin), &low)) {
    return std::nullopt;
  }
  const size_t lo_width = width == 0 ? a_end - begin : width;
  if (b.substr(begin, b_end - begin) != Padded(low + 1, lo_width)) {
    return std::nullopt;
  }
  return DigitGroup{begin, a_end};
}

// A run of names that share everything but one number: prefix[groups]suffix.
struct Run {
  std::string prefix, suffix;
  std::string groups;
};

// Names i.. that go on counting from names[i]; returns how many follow it.
size_t CountingRun(const std::vector<std::string>& names, size_t i, Groups groups,
                   DigitGroup& group) {
  size_t steps = 0;
  size_t width = 0;
  while (i + steps + 1 < names.size()) {
    const auto next = NextInRange(names[i + steps], names[i + steps + 1], width, groups);
    if (!next || (steps > 0 && next->begin != group.begin)) {
      break;
    }
    if (steps == 0) {
      group = *next;
      width = next->end - next->begin;
    }
    ++steps;
  }
  return steps;
}

// Where a single name would vary if it were part of a group: its last digits.
std::optional<DigitGroup> LastDigits(absl::string_view name, Groups groups) {
  const size_t last = name.find_last_of("0123456789");
  if (last == absl::string_view::npos || (groups == Groups::kAtEnd && last + 1 != name.size())) {
    return std::nullopt;
  }
  size_t begin = last;
  while (begin > 0 && absl::ascii_isdigit(static_cast<unsigned char>(name[begin - 1]))) {
    --begin;
  }
  if (last + 1 - begin > kDigitsMax) {
    return std::nullopt;
  }
  return DigitGroup{begin, last + 1};
}

std::string Compress(const std::vector<std::string>& names, Groups groups) {
  std::vector<Run> runs;
  for (size_t i = 0; i < names.size();) {
    DigitGroup group;
    const size_t steps = CountingRun(names, i, groups, group);
    if (steps == 0) {
      const auto digits = LastDigits(names[i], groups);
      if (!digits) {
        runs.push_back({names[i], "", ""});
        ++i;
        continue;
      }
      group = *digits;
    }
    const absl::string_view name = names[i];
    const absl::string_view last = names[i + steps];
    Run run;
    run.prefix = std::string(name.substr(0, group.begin));
    run.suffix = std::string(name.substr(group.end));
    run.groups = std::string(name.substr(group.begin, group.end - group.begin));
    if (steps > 0) {
      absl::StrAppend(&run.groups, "-",
                      last.substr(group.begin, last.size() - group.begin - run.suffix.size()));
    }
    if (!runs.empty() && !runs.back().groups.empty() && runs.back().prefix == run.prefix &&
        runs.back().suffix == run.suffix) {
      absl::StrAppend(&runs.back().groups, ",", run.groups);
    } else {
      runs.push_back(std::move(run));
    }
    i += steps + 1;
  }
  std::string out;
  for (const Run& run : runs) {
    const bool one = AllDigits(run.groups) || run.groups.empty();
    absl::StrAppend(&out, out.empty() ? "" : ",", run.prefix, one ? "" : "[", run.groups,
                    one ? "" : "]", run.suffix);
  }
  return out;
}

}  // namespace

bool IsIpv6(absl::string_view text) {
  const size_t percent = text.find('%');
  const std::string address(text.substr(0, percent));
  const absl::string_view zone =
      percent == absl::string_view::npos ? "0" : text.substr(percent + 1);
  in6_addr parsed;
  return IsPlainName(zone) && inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

bool IsSameHost(absl::string_view name, absl::string_view hostname) {
  const absl::string_view shorter = name.size() < hostname.size() ? name : hostname;
  const absl::string_view longer = name.size() < hostname.size() ? hostname : name;
  return !shorter.empty() && absl::StartsWithIgnoreCase(longer, shorter) &&
         (shorter.size() == longer.size() ||
          (longer[shorter.size()] == '.' && !absl::StrContains(shorter, '.')));
}

absl::Status CheckHostName(absl::string_view name) {
  if (!IsIpv6(name) && !IsPlainName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("want a host name (letters, digits, . _ -) or an address, got '", name, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<absl::string_view>> SplitOutsideBrackets(absl::string_view text) {
  std::vector<absl::string_view> items;
  bool inside = false;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '[' && inside) || (c == ']' && !inside)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the bracket at character ", i + 1, " of '", text, "' has no partner"));
    }
    inside = c == '[' ? true : c == ']' ? false : inside;
    if (c == ',' && !inside) {
      items.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (inside) {
    return absl::InvalidArgumentError(absl::StrCat("a '[' in '", text, "' is never closed"));
  }
  items.push_back(text.substr(begin));
  return items;
}

absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view text, size_t names_max) {
  std::vector<std::string> names;
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> items, SplitOutsideBrackets(text));
  for (absl::string_view raw : items) {
    const absl::string_view item = absl::StripAsciiWhitespace(raw);
    if (item.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an item of '", text, "' is empty: is a variable unset, or a comma too many?"));
    }
    ASSIGN_OR_RETURN(const std::vector<Piece> pieces, ParseItem(item));
    const uint64_t count = CountNames(pieces, names_max);
    if (names.size() + count > names_max) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", item, "' makes more than ", names_max, " hosts"));
    }
    for (std::string& name : Multiply(pieces)) {
      RETURN_IF_ERROR(CheckHostName(name));
      names.push_back(std::move(name));
    }
  }
  return names;
}

std::string CompressHostList(const std::vector<std::string>& names) {
  return Compress(names, Groups::kAnywhere);
}

std::string SlurmHostList(const std::vector<std::string>& names) {
  return Compress(names, Groups::kAtEnd);
}

absl::StatusOr<std::vector<uint32_t>> ExpandRunLengths(absl::string_view text, size_t numbers_max) {
  std::vector<uint32_t> numbers;
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    uint32_t value = 0;
    uint32_t times = 1;
    absl::string_view number = item;
    absl::string_view repeat;
    if (const size_t paren = item.find("(x"); paren != absl::string_view::npos) {
      number = item.substr(0, paren);
      repeat = item.substr(paren + 2);
      if (!absl::ConsumeSuffix(&repeat, ")") || !AllDigits(repeat) ||
          !absl::SimpleAtoi(repeat, &times) || times == 0) {
        number = "";
      }
    }
    if (!AllDigits(number) || !absl::SimpleAtoi(number, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("want counts as in '2(x3),1', got '", item, "' in '", text, "'"));
    }
    if (times > numbers_max - numbers.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' makes more than ", numbers_max, " counts"));
    }
    numbers.insert(numbers.end(), times, value);
  }
  return numbers;
}

std::string CompressRunLengths(const std::vector<uint32_t>& numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t j = i;
    while (j < numbers.size() && numbers[j] == numbers[i]) {
      ++j;
    }
    absl::StrAppend(&out, out.empty() ? "" : ",", numbers[i]);
    if (j - i > 1) {
      absl::StrAppend(&out, "(x", j - i, ")");
    }
    i = j;
  }
  return out;
}

}  // namespace muster
