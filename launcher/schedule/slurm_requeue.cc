#include "launcher/schedule/slurm_requeue.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

// slurmctld looks every third of SlurmdTimeout whether a node had answered by its look before, less
// SlurmdTimeout: two thirds more at most, and what follows. Seen 30 s for a SlurmdTimeout of 10 s.
constexpr absl::Duration kSlurmLooks = absl::Seconds(30);

}  // namespace

bool MayBeRequeued(absl::string_view job) {
  const std::vector<absl::string_view> words = absl::StrSplit(job, absl::ByAnyChar(" \n"));
  for (const absl::string_view word : words) {
    if (word == "Requeue=1") {
      return true;
    }
  }
  return false;
}

std::optional<absl::Duration> NodeIsDownWithin(absl::string_view config) {
  for (const absl::string_view line : absl::StrSplit(config, '\n')) {
    // "SlurmdTimeout           = 300 sec"
    const std::pair<absl::string_view, absl::string_view> both =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    uint32_t seconds = 0;
    if (absl::StripAsciiWhitespace(both.first) != "SlurmdTimeout") {
      continue;
    }
    absl::string_view value = absl::StripAsciiWhitespace(both.second);
    if (absl::ConsumeSuffix(&value, " sec") && absl::SimpleAtoi(value, &seconds) && seconds > 0) {
      return absl::Seconds(seconds) * 5 / 3 + kSlurmLooks;
    }
  }
  return std::nullopt;
}

}  // namespace muster
