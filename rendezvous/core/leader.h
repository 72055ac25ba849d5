// One master's part in the choice of the one that leads, among several that share a store with
// leases (etcd): what to do next. Pure; the store's answers are arguments.
//
// Invariants:
//  E1 a master leads only while its lease cannot have ended: counted by its own clock from when it
//     SENT what the store granted or renewed it by, or from when it began to see that no member of
//     the store runs, for one that is back gives every lease its whole length anew;
//  E2 one that has lost its lease never leads again: a new life, with a higher epoch, may.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace muster {

struct LeaderConfig {
  absl::Duration lease = absl::Seconds(5);
  absl::Duration look_every = absl::Seconds(1);  // whether there still is another leader
};

enum class LeaderAct : uint8_t {
  kGrant,      // ask for a lease
  kTake,       // try to become the leader with it
  kKeepAlive,  // renew it
  kWait,       // until `act_at`
  kLost,       // stop at once: another one may lead
};

struct LeaderState {
  int64_t lease = 0;  // 0 = none
  absl::Time lease_until = absl::InfinitePast();
  bool leads = false;
  bool lost = false;
  absl::Time take_at = absl::InfinitePast();
  absl::Time renew_at = absl::InfinitePast();
  absl::Time grant_at = absl::InfinitePast();

  // When the next act is due, if there is none now.
  absl::Time ActAt() const;
};

// What to do now. Forgets a lease that may have ended.
LeaderAct NextAct(LeaderState& state, absl::Time now);
// How long the call that follows from it may take.
absl::Duration ActLimit(const LeaderConfig& config, const LeaderState& state, absl::Time now);

// Answers. `sent`: when the request left.
void OnGranted(const LeaderConfig& config, LeaderState& state, int64_t lease, absl::Time sent);
void OnGrantFailed(const LeaderConfig& config, LeaderState& state, absl::Time now);
void OnTaken(const LeaderConfig& config, LeaderState& state, bool ours, absl::Time now);
void OnRenewed(const LeaderConfig& config, LeaderState& state, absl::Time sent);
// `gone`: the store says that there is no such lease; else nobody answered.
void OnRenewFailed(const LeaderConfig& config, LeaderState& state, bool gone, absl::Time now);
// Every member has said, after `since`, that it does not run.
void OnStoreDown(const LeaderConfig& config, LeaderState& state, absl::Time since);

}  // namespace muster
