#include "agent/core/thread_tally.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

constexpr size_t kMayLiveMax = 1u << 16;  // beyond that, numbers of threads come again

}  // namespace

ThreadTimes ParseSchedstat(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  int64_t ran = 0;
  int64_t waited = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &ran) ||
      !absl::SimpleAtoi(words[1], &waited) || ran < 0 || waited < 0) {
    return {};
  }
  return {absl::Nanoseconds(ran), absl::Nanoseconds(waited)};
}

void ThreadTally::Take(std::map<int32_t, ThreadTimes> living, bool whole) {
  for (const auto& [thread, times] : living) {
    Add(thread, times);
  }
  if (!whole && living.size() + seen_.size() <= kMayLiveMax) {
    living.insert(seen_.begin(), seen_.end());
  }
  for (const int32_t thread : awaited_) {
    if (const auto seen = seen_.find(thread); seen != seen_.end()) {
      living.insert(*seen);
    }
  }
  seen_ = std::move(living);
}

void ThreadTally::TakeLast(int32_t thread, const ThreadTimes& times) {
  Add(thread, times);
  seen_.erase(thread);
  awaited_.erase(thread);
}

// Times never fall: where they do, another thread has got the number.
void ThreadTally::Add(int32_t thread, const ThreadTimes& times) {
  const auto seen = seen_.find(thread);
  const bool same =
      seen != seen_.end() && times.ran >= seen->second.ran && times.waited >= seen->second.waited;
  sum_.ran += same ? times.ran - seen->second.ran : times.ran;
  sum_.waited += same ? times.waited - seen->second.waited : times.waited;
}

absl::Duration ParsePressure(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "some ")) {
      continue;
    }
    for (absl::string_view word : absl::StrSplit(line, ' ')) {
      int64_t total = 0;
      if (absl::ConsumePrefix(&word, "total=") && absl::SimpleAtoi(word, &total) && total >= 0) {
        return absl::Microseconds(total);
      }
    }
  }
  return absl::ZeroDuration();
}

}  // namespace muster
