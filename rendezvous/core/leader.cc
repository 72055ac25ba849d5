#include "rendezvous/core/leader.h"

#include <algorithm>

namespace muster {
namespace {

// Twice more before the lease ends, if one is lost.
absl::Duration RenewEvery(const LeaderConfig& config) { return config.lease / 3; }

void Forget(LeaderState& state) {
  state.lost = state.leads;  // E2
  state.leads = false;
  state.lease = 0;
  state.lease_until = absl::InfinitePast();
}

}  // namespace

absl::Time LeaderState::ActAt() const {
  if (lost) {
    return absl::InfiniteFuture();
  }
  return lease == 0 ? grant_at
                    : std::min({lease_until, renew_at, leads ? absl::InfiniteFuture() : take_at});
}

LeaderAct NextAct(LeaderState& state, absl::Time now) {
  if (state.lease != 0 && now >= state.lease_until) {
    Forget(state);  // E1
  }
  if (state.lost) {
    return LeaderAct::kLost;
  }
  if (state.lease == 0) {
    return now >= state.grant_at ? LeaderAct::kGrant : LeaderAct::kWait;
  }
  if (now >= state.renew_at) {
    return LeaderAct::kKeepAlive;
  }
  return !state.leads && now >= state.take_at ? LeaderAct::kTake : LeaderAct::kWait;
}

absl::Duration ActLimit(const LeaderConfig& config, const LeaderState& state, absl::Time now) {
  constexpr absl::Duration kWithoutLease = absl::Seconds(2);
  // One call that hangs leaves time for others.
  return state.lease == 0 ? kWithoutLease : std::min(state.lease_until - now, RenewEvery(config));
}

void OnGranted(const LeaderConfig& config, LeaderState& state, int64_t lease, absl::Time sent) {
  state.lease = lease;
  state.lease_until = sent + config.lease;
  state.renew_at = sent + RenewEvery(config);
}

void OnGrantFailed(const LeaderConfig& config, LeaderState& state, absl::Time now) {
  state.grant_at = now + config.look_every;
}

void OnTaken(const LeaderConfig& config, LeaderState& state, bool ours, absl::Time now) {
  state.leads = ours;
  state.take_at = now + config.look_every;
}

void OnRenewed(const LeaderConfig& config, LeaderState& state, absl::Time sent) {
  state.lease_until = std::max(state.lease_until, sent + config.lease);
  state.renew_at = sent + RenewEvery(config);
}

void OnRenewFailed(const LeaderConfig& config, LeaderState& state, bool gone, absl::Time now) {
  if (gone) {
    Forget(state);
  }
  state.grant_at = now;
  state.renew_at = now + std::min(config.look_every, RenewEvery(config)) / 4;
}

void OnStoreDown(const LeaderConfig& config, LeaderState& state, absl::Time since) {
  if (state.leads && since < state.lease_until) {
    state.lease_until = std::max(state.lease_until, since + config.lease);
  }
}

}  // namespace muster
