// Keeps one master in the running for the leadership of those that share a place in etcd, on a
// thread of its own (rendezvous/core/leader.h decides).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/unique_fd.h"
#include "rendezvous/core/leader.h"
#include "rendezvous/etcd/etcd_client.h"

namespace muster {

// What a leader's changes are guarded by: nothing of a master that has lost the lead is written.
struct LeadRight {
  uint32_t epoch = 0;  // higher than that of every leader before
  EtcdChange::Guard guard;
};

struct LeadershipEvents {
  std::function<void(const LeadRight&)> on_led;
  std::function<void()> on_lost;                           // after on_led; nothing comes behind it
  std::function<void(const std::string& who)> on_waiting;  // another one leads, or etcd is away
  std::function<void(const std::string& what)> on_few_named;  // of etcd's members; also before
};

// All keys of a place begin so.
std::string EtcdRoot(const EtcdPlace& place);

class Leadership {
 public:
  // `self`: this master's address, for people. `epoch_min`: of its lead, at least. Events come on
  // Run's thread.
  Leadership(const EtcdPlace& place, std::string self, uint32_t epoch_min, LeadershipEvents events,
             LeaderConfig config = {});

  // Blocks until Stop, or the lead is lost. The lead is given back at the end, so that the next
  // one need not wait for the lease.
  void Run();
  void Stop();  // any thread, also from within an event
  // Whether this master leads for certain. Any thread; true after on_led, until E1 ends it, also
  // where Run's thread has had no time yet to say so.
  bool Leads() const;

 private:
  void Act(LeaderAct act);
  void Grant();
  void Take();
  void Renew();
  // Whether we lead now; the right, if so.
  absl::StatusOr<bool> TryTake(LeadRight& right);
  // Etcd has just answered: reads its own list of its members, unless that was done less than a
  // lease ago. `taken`: in any case.
  void LookAtMembers(bool taken);
  void Waiting(const std::string& who);
  // Until then, or Stop. False: stopped.
  bool WaitUntil(absl::Time at);

  const std::string root_;
  const std::string self_;
  const std::vector<std::string> named_;  // members of etcd, HOST:PORT
  const uint32_t epoch_min_;
  const LeadershipEvents events_;
  const LeaderConfig config_;
  EtcdClient client_;
  LeaderState state_;
  std::atomic<int64_t> leads_until_{0};  // nanoseconds of BootNow()
  std::string waiting_;                  // as on_waiting was told last
  // Where each member of etcd can be asked whether it runs; empty: not known, or one cannot.
  std::vector<std::vector<std::string>> members_;
  absl::Time look_at_ = absl::InfinitePast();  // the members again, not before
  std::string few_named_;                      // as on_few_named was told last
  const UniqueFd stop_;                        // eventfd: readable once stopped
};

}  // namespace muster
