// Whether and when a starter runs a command again that ended before the agent answered. Pure.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace muster {

// Why ssh gave up, by its own words.
enum class StartLoss {
  kLasting,  // another try would end the same way, and each may count against the account
  kDropped,  // sshd closed the connection before any login: MaxStartups, by chance
  kOther,    // refused, no route, an end in the middle
};

StartLoss StartLossOf(const std::deque<std::string>& last_words);

struct StartRetries {
  int tries = 1;                                        // in all
  int if_dropped = 1;                                   // in all, where the last try was dropped
  absl::Duration first_wait = absl::Milliseconds(500);  // doubled each time, up to 8 of it
};

// The wait after `tried` (1 and more) of them; nullopt: no more. It is 0.5 to 1.5 of the planned
// one by `unit` (0 to 1, by chance), so that those that failed together do not come again together.
std::optional<absl::Duration> RetryAfter(const StartRetries& retries, StartLoss loss, int tried,
                                         double unit);

}  // namespace muster
