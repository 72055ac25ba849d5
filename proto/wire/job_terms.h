// What a job asks of its master: sent by agents in their Hello, so that a daemon can form a job it
// never heard of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "proto/base/limits.h"
#include "proto/base/restart_rules.h"
#include "proto/base/work_plan.h"

namespace muster {

// --lease. An agent beats five times in a lease, and a beat takes some time; nobody wants to hear
// only after an hour that a node is gone. wire
inline constexpr absl::Duration kLeaseMin = absl::Seconds(1);
inline constexpr absl::Duration kLeaseMax = absl::Hours(1);

struct JobTerms {
  uint32_t nodes_min = 1;
  uint32_t nodes_max = 1;
  std::optional<uint32_t> spares;       // none = as many as come
  std::optional<absl::Duration> lease;  // none = the master's own
  uint32_t restarts_max = 0;
  RestartMode restart = RestartMode::kAll;
  RestartRules restart_rules;
  OnFailure on_failure = OnFailure::kStop;
  absl::Duration join_timeout = kJoinTimeout;
  absl::Duration last_call = kLastCall;
  absl::Duration grace = kGrace;
  absl::Duration restart_grace = kRestartGrace;
  absl::Duration time_limit = absl::InfiniteDuration();
  absl::Duration tell_idle = kTellIdle;
  uint16_t master_port = 0;  // 0 = the store port of node rank 0
  std::string master_addr;   // "" = address of node rank 0
  bool operator==(const JobTerms&) const = default;
};

}  // namespace muster
