#include "agent/core/look_pace.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace muster {

int64_t ParseNewestProcess(absl::string_view loadavg) {
  const absl::string_view text = absl::StripTrailingAsciiWhitespace(loadavg);
  const size_t space = text.rfind(' ');
  int64_t newest = 0;
  return space != absl::string_view::npos && absl::SimpleAtoi(text.substr(space + 1), &newest) &&
                 newest > 0
             ? newest
             : 0;
}

void LookPace::Begin(absl::Time now) {
  next_ = std::min(next_, now + kAsk);
  pending_ = true;
}

bool LookPace::Asked(absl::Time now, int64_t newest) {
  next_ = now + kAsk;
  fresh_ = newest != newest_;
  newest_ = newest;
  pending_ = pending_ || fresh_;
  return now >= (pending_ ? after_busy_ : after_quiet_);
}

void LookPace::Looked(absl::Time now, absl::Duration took) {
  after_busy_ = now + std::min(took * kTimesBusy, kSeldom);
  after_quiet_ = now + std::min(took * kTimesQuiet, kSeldom);
  pending_ = fresh_;
}

}  // namespace muster
