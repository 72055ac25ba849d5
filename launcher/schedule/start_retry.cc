#include "launcher/schedule/start_retry.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

constexpr int kDoublings = 3;

constexpr absl::string_view kLasting[] = {
    "Permission denied",          "Host key verification failed",
    "Could not resolve hostname", "Too many authentication failures",
    "Bad configuration option",   "no such identity"};

// A proxy's or jump host's, after which the ssh behind it says what a dropped one would say.
constexpr absl::string_view kUnreachable[] = {"Connection refused", "No route to host",
                                              "open failed", "timed out"};

// kex_ since OpenSSH 7.7, ssh_ before: the connection ended before the other side said its version.
constexpr absl::string_view kDropped[] = {"kex_exchange_identification",
                                          "ssh_exchange_identification"};

template <size_t N>
bool SaysAny(const std::deque<std::string>& lines, const absl::string_view (&words)[N]) {
  return std::any_of(lines.begin(), lines.end(), [&words](const std::string& line) {
    return std::any_of(std::begin(words), std::end(words),
                       [&line](absl::string_view word) { return absl::StrContains(line, word); });
  });
}

}  // namespace

StartLoss StartLossOf(const std::deque<std::string>& last_words) {
  if (SaysAny(last_words, kLasting)) {
    return StartLoss::kLasting;
  }
  return SaysAny(last_words, kDropped) && !SaysAny(last_words, kUnreachable) ? StartLoss::kDropped
                                                                             : StartLoss::kOther;
}

std::optional<absl::Duration> RetryAfter(const StartRetries& retries, StartLoss loss, int tried,
                                         double unit) {
  const int tries = loss == StartLoss::kLasting   ? 1
                    : loss == StartLoss::kDropped ? retries.if_dropped
                                                  : retries.tries;
  if (tried >= tries) {
    return std::nullopt;
  }
  return retries.first_wait * (1 << std::min(tried - 1, kDoublings)) * (0.5 + unit);
}

}  // namespace muster
