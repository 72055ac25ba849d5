#include "launcher/jobs/job_times.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

constexpr uint64_t kDoublingsMax = 30;

}  // namespace

std::optional<TimeMark> TimeMarker::Next(absl::Time now, uint64_t place) {
  const int64_t second = absl::ToUnixSeconds(now);
  if (marks_ > 0 && std::abs(second - last_.second) < last_.span_s) {
    return std::nullopt;
  }
  const uint64_t doublings = std::min(marks_ / marks_per_span_, kDoublingsMax);
  ++marks_;
  last_ = {second, int64_t{1} << doublings, place};
  return last_;
}

std::string TimeMarkLine(const TimeMark& mark) {
  return absl::StrCat(mark.second, " ", mark.span_s, " ", mark.place, "\n");
}

std::optional<std::vector<TimeMark>> ParseTimeMarks(absl::string_view text) {
  std::vector<TimeMark> out;
  for (size_t end = text.find('\n'); end != absl::string_view::npos; end = text.find('\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(text.substr(0, end), ' ');
    TimeMark mark;
    if (words.size() != 3 || !absl::SimpleAtoi(words[0], &mark.second) ||
        !absl::SimpleAtoi(words[1], &mark.span_s) || !absl::SimpleAtoi(words[2], &mark.place)) {
      return std::nullopt;
    }
    out.push_back(mark);
    text.remove_prefix(end + 1);
  }
  return out;
}

std::optional<TimeMark> MarkSince(const std::vector<TimeMark>& marks, absl::Time since) {
  const auto mark = std::find_if(marks.begin(), marks.end(), [since](const TimeMark& m) {
    return absl::FromUnixSeconds(m.second) + absl::Seconds(m.span_s) > since;
  });
  return mark == marks.end() ? std::nullopt : std::optional(*mark);
}

}  // namespace muster
