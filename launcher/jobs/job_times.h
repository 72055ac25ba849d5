// When a detached job printed what: beside each file output.START of its log (job_log.h) a file
// times.START, with a mark for each second in which something came. Pure.
//
// A log is bounded, its marks are, too: the longer a piece of it lasts, the further they are apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// What begins at `place` came in `second` or later, up to the next mark in `span_s` seconds at
// most.
struct TimeMark {
  int64_t second = 0;  // since the epoch
  int64_t span_s = 1;
  uint64_t place = 0;  // in the whole output
  bool operator==(const TimeMark&) const = default;
};

// Where marks are due in one piece of a log.
class TimeMarker {
 public:
  // The span doubles with each such number of marks.
  explicit TimeMarker(uint64_t marks_per_span) : marks_per_span_(marks_per_span) {}

  // For output that begins at `place` and came `now`; none: the last mark says enough.
  std::optional<TimeMark> Next(absl::Time now, uint64_t place);

 private:
  uint64_t marks_per_span_;
  uint64_t marks_ = 0;
  TimeMark last_;
};

std::string TimeMarkLine(const TimeMark& mark);
// None: something else stands there. A line without its end is still being written.
std::optional<std::vector<TimeMark>> ParseTimeMarks(absl::string_view text);

// The first mark behind which something of `since` or later may stand; none: there is nothing. What
// the clock was set back over counts as later.
std::optional<TimeMark> MarkSince(const std::vector<TimeMark>& marks, absl::Time since);

}  // namespace muster
