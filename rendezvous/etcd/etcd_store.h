// A journal's files in etcd (etcd_files.h), for the master that leads.
//
// Invariants:
//  T1 each change is guarded by the leader's key, so that nothing of a master that has lost the
//     lead gets in, and by the change before it, so that it happens once, in order: not again, nor
//     late, where its answer was lost;
//  T2 one that only removes puts nothing where etcd is full, which takes it then. It may happen
//     again, but not behind the next one that puts something; nor does one that was given up happen
//     behind it: then it puts something first, if etcd lets it.
// Bounded: what a batch takes, by kEtcdWriteMax.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/etcd/etcd_files.h"
#include "rendezvous/etcd/leadership.h"
#include "rendezvous/service/journal_store.h"

namespace muster {

// Less than JournalLimits::write_max: what the members have said is told, not only that nothing
// was.
inline constexpr absl::Duration kEtcdWriteMax = absl::Seconds(8);

class EtcdStore final : public JournalStore {
 public:
  EtcdStore(const EtcdPlace& place, LeadRight right, absl::Duration write_max = kEtcdWriteMax);

  uint32_t epoch() const override { return right_.epoch; }
  std::string who() const override;
  // Aborted: another master leads by now.
  absl::StatusOr<std::vector<StoredFile>> ReadAll() override;
  bool Do(std::vector<JournalTask>& tasks) override;

 private:
  // Sets each task's status; the first that is not OK. Aborted: another master leads.
  absl::Status CarryOut(std::vector<JournalTask>& tasks, absl::Time until);
  // What is in to_remove_; as CarryOut.
  absl::Status RemoveLeft(absl::Time until);
  absl::Status Commit(EtcdChange change, absl::Time until);
  // `name`: as it puts it; empty: it puts nothing.
  absl::Status UnderGuards(EtcdChange& change, const std::string& name, absl::Time until);
  // Why the guards did not hold. True: it was our change `name` itself, whose answer was lost;
  // false: one before it. Aborted: another master leads.
  absl::StatusOr<bool> HasHappened(const std::string& name, absl::Time until);

  EtcdClient client_;
  const LeadRight right_;
  const absl::Duration write_max_;
  EtcdFiles files_;
  EtcdChange::Guard last_;  // of the change before
  uint64_t changes_ = 0;
  bool unheard_ = false;  // whether the last one that puts something has happened is not known
  std::set<uint64_t> to_remove_;  // as etcd did not do it when it should
};

}  // namespace muster
