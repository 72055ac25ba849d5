#include "rendezvous/etcd/leadership.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "rendezvous/etcd/etcd_members.h"
#include "rendezvous/etcd/nobody_listens.h"

namespace muster {
namespace {

constexpr absl::Duration kFarewell = absl::Seconds(1);
constexpr absl::Duration kLookWithin = absl::Milliseconds(500);
constexpr absl::Duration kLongWait = absl::Minutes(1);

std::string LeaderKey(const std::string& root) { return root + "lead/leader"; }
std::string EpochKey(const std::string& root) { return root + "lead/epoch"; }

// "LEASE ADDRESS": whose it is, also after an answer that never came.
std::string LeaderValue(int64_t lease, const std::string& self) {
  return absl::StrCat(absl::Hex(lease), " ", self);
}

const EtcdEntry* Find(const std::vector<EtcdEntry>& entries, const std::string& key) {
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [&](const EtcdEntry& entry) { return entry.key == key; });
  return at == entries.end() ? nullptr : &*at;
}

absl::StatusOr<uint32_t> EpochOf(const EtcdEntry* entry) {
  uint32_t epoch = 0;
  if (entry != nullptr &&
      (!absl::SimpleAtoi(entry->value, &epoch) || epoch == std::numeric_limits<uint32_t>::max())) {
    return absl::FailedPreconditionError(
        absl::StrCat("etcd: ", entry->key, " holds '", entry->value, "', not an epoch"));
  }
  return epoch;
}

}  // namespace

std::string EtcdRoot(const EtcdPlace& place) { return absl::StrCat("/muster/", place.name, "/"); }

Leadership::Leadership(const EtcdPlace& place, std::string self, uint32_t epoch_min,
                       LeadershipEvents events, LeaderConfig config)
    : root_(EtcdRoot(place)),
      self_(std::move(self)),
      named_(place.members),
      epoch_min_(epoch_min),
      events_(std::move(events)),
      config_(config),
      client_(place),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Leadership::Run() {
  for (;;) {
    const LeaderAct act = NextAct(state_, BootNow());
    if (act == LeaderAct::kLost) {
      return events_.on_lost();
    }
    Act(act);
    leads_until_ = state_.leads ? absl::ToUnixNanos(state_.lease_until) : 0;
    if (!WaitUntil(act == LeaderAct::kWait ? state_.ActAt() : absl::InfinitePast())) {
      break;
    }
  }
  if (state_.lease != 0) {
    (void)client_.Revoke(state_.lease, kFarewell);  // else it ends by itself
  }
}

void Leadership::Stop() { eventfd_write(stop_.get(), 1); }

bool Leadership::Leads() const { return absl::ToUnixNanos(BootNow()) < leads_until_.load(); }

void Leadership::Act(LeaderAct act) {
  if (act == LeaderAct::kGrant) {
    Grant();
  } else if (act == LeaderAct::kTake) {
    Take();
  } else if (act == LeaderAct::kKeepAlive) {
    Renew();
  }
}

void Leadership::Grant() {
  const absl::Time sent = BootNow();
  const absl::StatusOr<int64_t> lease =
      client_.Grant(config_.lease, ActLimit(config_, state_, sent));
  if (lease.ok()) {
    OnGranted(config_, state_, *lease, sent);
    LookAtMembers(false);
  } else {
    OnGrantFailed(config_, state_, BootNow());
    Waiting(std::string(lease.status().message()));
  }
}

void Leadership::Take() {
  LeadRight right;
  const absl::StatusOr<bool> ours = TryTake(right);
  OnTaken(config_, state_, ours.ok() && *ours, BootNow());
  if (!ours.ok()) {
    return Waiting(std::string(ours.status().message()));
  }
  if (*ours) {
    leads_until_ = absl::ToUnixNanos(state_.lease_until);
    events_.on_led(right);
    LookAtMembers(true);
  }
}

absl::StatusOr<bool> Leadership::TryTake(LeadRight& right) {
  const absl::Duration limit = ActLimit(config_, state_, BootNow());
  ASSIGN_OR_RETURN(const std::vector<EtcdEntry> now, client_.Read(root_ + "lead/", limit));
  const EtcdEntry* leader = Find(now, LeaderKey(root_));
  const EtcdEntry* last = Find(now, EpochKey(root_));
  ASSIGN_OR_RETURN(const uint32_t epoch, EpochOf(last));
  const std::string value = LeaderValue(state_.lease, self_);
  if (leader != nullptr && leader->value == value) {
    right = {epoch, {leader->key, leader->mod_revision}};
    return true;
  }
  if (leader != nullptr) {
    Waiting(absl::StrCat(leader->value.substr(leader->value.find(' ') + 1), " leads"));
    return false;
  }
  const uint32_t next = std::max(epoch + 1, epoch_min_);
  EtcdChange change;
  change.guards = {{LeaderKey(root_), 0},
                   {EpochKey(root_), last == nullptr ? 0 : last->mod_revision}};
  change.puts = {{LeaderKey(root_), value, state_.lease}, {EpochKey(root_), absl::StrCat(next), 0}};
  ASSIGN_OR_RETURN(const int64_t revision,
                   client_.Change(change, ActLimit(config_, state_, BootNow())));
  right = {next, {LeaderKey(root_), revision}};
  return revision != 0;
}

void Leadership::Renew() {
  const absl::Time sent = BootNow();
  const absl::Status renewed = client_.KeepAlive(state_.lease, ActLimit(config_, state_, sent));
  if (renewed.ok()) {
    OnRenewed(config_, state_, sent);
    LookAtMembers(false);
  } else {
    OnRenewFailed(config_, state_, absl::IsNotFound(renewed), BootNow());
    const absl::Time since = BootNow();
    if (state_.leads && NoMemberListens(named_, members_, since + kLookWithin)) {
      OnStoreDown(config_, state_, since);
    }
  }
}

void Leadership::LookAtMembers(bool taken) {
  const absl::Time now = BootNow();
  if (!taken && now < look_at_) {
    return;
  }
  const absl::StatusOr<std::vector<EtcdMember>> members =
      client_.Members(std::min(kLookWithin, ActLimit(config_, state_, now)));
  if (!members.ok()) {
    // Etcd may have begun to end; where it goes on, so that leases are renewed, this gets old.
    if (now >= look_at_ + config_.lease) {
      members_.clear();
    }
    return;
  }
  look_at_ = now + config_.lease;
  members_ = PlacesToAsk(named_, *members).value_or(std::vector<std::vector<std::string>>());
  const std::string few = FewNamed(named_, *members);
  if (few != few_named_ && !few.empty()) {
    events_.on_few_named(few);
  }
  few_named_ = few;
}

void Leadership::Waiting(const std::string& who) {
  if (who != waiting_) {
    waiting_ = who;
    events_.on_waiting(who);
  }
}

bool Leadership::WaitUntil(absl::Time at) {
  const absl::Duration wait = std::clamp(at - BootNow(), absl::ZeroDuration(), kLongWait);
  pollfd stop = {stop_.get(), POLLIN, 0};
  const absl::Duration rounded = absl::Ceil(wait, absl::Milliseconds(1));
  return poll(&stop, 1, static_cast<int>(absl::ToInt64Milliseconds(rounded))) <= 0;
}

}  // namespace muster
