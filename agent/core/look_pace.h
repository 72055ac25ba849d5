// When to look through the processes of a node for new ones among its own: soon after one has
// begun, seldom while none does, and never for more than a small share of a core. Whether one has
// begun, anywhere in the system, is asked at short intervals, which costs next to nothing.
// Pure; single thread.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// The last word of /proc/loadavg: the number of the process or thread that began last. Any other
// text: 0.
int64_t ParseNewestProcess(absl::string_view loadavg);

class LookPace {
 public:
  static constexpr absl::Duration kAsk = absl::Milliseconds(100);
  // A look that computed this long is followed by none for as many times as long: after a new
  // process, and without one, for an old process too may do what is looked for.
  static constexpr int64_t kTimesBusy = 300;
  static constexpr int64_t kTimesQuiet = 10000;
  static constexpr absl::Duration kSeldom = absl::Seconds(30);

  // Something of ours has been started: what it makes, it makes soon.
  void Begin(absl::Time now);
  // There is nothing to look for until Begin.
  void End() { next_ = absl::InfiniteFuture(); }

  // When to ask.
  absl::Time next() const { return next_; }
  // At `next` or later: whether to look now. `newest`: ParseNewestProcess's; where that says
  // nothing, only time decides.
  bool Asked(absl::Time now, int64_t newest);
  // The look that Asked wanted took so long, of a core's time.
  void Looked(absl::Time now, absl::Duration took);

 private:
  absl::Time next_ = absl::InfiniteFuture();
  absl::Time after_busy_ = absl::InfinitePast();
  absl::Time after_quiet_ = absl::InfinitePast();
  int64_t newest_ = 0;
  // What began just before a look may do a moment later what is looked for.
  bool fresh_ = false;    // one has begun since the last time that was asked
  bool pending_ = false;  // one has begun that was not looked for, or was fresh at the look
};

}  // namespace muster
