#include "proto/base/text.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace muster {

std::string SignalName(int signo) {
  const char* name = sigabbrev_np(signo);
  return name == nullptr ? absl::StrCat("signal ", signo) : absl::StrCat("SIG", name);
}

std::string SignalWords(int signo) {
  const char* words = sigdescr_np(signo);
  return words == nullptr ? absl::StrCat("signal ", signo) : absl::AsciiStrToLower(words);
}

int SignalNumber(absl::string_view name) {
  int number = 0;
  if (absl::SimpleAtoi(name, &number)) {
    return number > 0 && number < NSIG ? number : 0;
  }
  std::string upper = absl::AsciiStrToUpper(name);
  if (absl::StartsWith(upper, "SIG")) {
    upper.erase(0, 3);
  }
  for (int i = 1; i < NSIG; ++i) {
    const char* abbreviation = sigabbrev_np(i);
    if (abbreviation != nullptr && upper == abbreviation) {
      return i;
    }
  }
  return 0;
}

std::string Plural(size_t n, absl::string_view one, absl::string_view many) {
  return absl::StrCat(n, " ", n == 1 ? one : many);
}

std::string ShortDuration(absl::Duration d) {
  if (d < absl::Seconds(1)) {
    return absl::StrCat(absl::ToInt64Milliseconds(d), " ms");
  }
  if (d < absl::Minutes(2)) {
    return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(d));
  }
  const int64_t seconds = absl::ToInt64Seconds(d);
  if (d < absl::Hours(2)) {
    const int64_t rest = seconds % 60;
    return absl::StrCat(seconds / 60, " min", rest == 0 ? "" : absl::StrCat(" ", rest, " s"));
  }
  const int64_t rest = seconds / 60 % 60;
  return absl::StrCat(seconds / 3600, " h", rest == 0 ? "" : absl::StrCat(" ", rest, " min"));
}

std::string RangeList(const std::vector<uint32_t>& numbers, size_t items_max) {
  std::string out;
  size_t items = 0;
  for (size_t i = 0; i < numbers.size();) {
    size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) {
      ++j;
    }
    if (items++ == items_max) {
      return absl::StrCat(out, ",...");
    }
    absl::StrAppend(&out, out.empty() ? "" : ",", numbers[i]);
    if (j > i) {
      absl::StrAppend(&out, "-", numbers[j]);
    }
    i = j + 1;
  }
  return out;
}

std::string ShowSent(absl::string_view bytes) {
  constexpr size_t kShown = 80;
  return absl::StrCat("'", absl::CHexEscape(bytes.substr(0, kShown)),
                      bytes.size() > kShown ? "..." : "", "'");
}

std::string HostPort(absl::string_view host, uint16_t port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

bool HasWord(const std::vector<std::string>& words, absl::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string ShellQuote(absl::string_view word) {
  constexpr absl::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == absl::string_view::npos) {
    return std::string(word);
  }
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace muster
