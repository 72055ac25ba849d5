#include "rendezvous/etcd/etcd_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

// Changes of ours that were given up may yet happen between two tries: at most one each.
constexpr int kTriesMax = 8;

absl::Status AnotherLeads() { return absl::AbortedError("another master leads"); }

}  // namespace

EtcdStore::EtcdStore(const EtcdPlace& place, LeadRight right, absl::Duration write_max)
    : client_(place),
      right_(std::move(right)),
      write_max_(write_max),
      files_(EtcdRoot(place)),
      last_{EtcdRoot(place) + "change", 0} {}

std::string EtcdStore::who() const { return "etcd"; }

absl::StatusOr<std::vector<StoredFile>> EtcdStore::ReadAll() {
  // Nothing of a master before gets in behind what is read: the leader's key is ours.
  const absl::Time until = BootNow() + write_max_;
  RETURN_IF_ERROR(HasHappened("", until).status());
  ASSIGN_OR_RETURN(const std::vector<EtcdEntry> entries,
                   client_.Read(files_.prefix(), until - BootNow()));
  ASSIGN_OR_RETURN(EtcdFiles::Listing listing, files_.Take(entries));
  for (EtcdChange& garbage : listing.garbage) {
    RETURN_IF_ERROR(Commit(std::move(garbage), BootNow() + write_max_));
  }
  return std::move(listing.files);
}

bool EtcdStore::Do(std::vector<JournalTask>& tasks) {
  const absl::Time until = BootNow() + write_max_;
  absl::Status status = RemoveLeft(until);
  if (status.ok()) {
    status = CarryOut(tasks, until);
  } else {
    for (JournalTask& task : tasks) {
      task.status = status;
    }
  }
  for (const JournalTask& task : tasks) {
    if (task.what == JournalTask::What::kRemove && !task.status.ok()) {
      to_remove_.insert(task.file);
    }
  }
  // Refused with what was to be written (etcd is full): by itself it may be taken.
  if (absl::IsFailedPrecondition(status) && !to_remove_.empty()) {
    status = RemoveLeft(until);
    for (JournalTask& task : tasks) {
      if (task.what == JournalTask::What::kRemove && status.ok()) {
        task.status = absl::OkStatus();
      }
    }
  }
  return !absl::IsAborted(status);
}

absl::Status EtcdStore::RemoveLeft(absl::Time until) {
  std::vector<JournalTask> left;
  for (const uint64_t file : to_remove_) {
    left.push_back({JournalTask::What::kRemove, file, "", absl::OkStatus()});
  }
  RETURN_IF_ERROR(CarryOut(left, until));
  to_remove_.clear();
  return absl::OkStatus();
}

absl::Status EtcdStore::CarryOut(std::vector<JournalTask>& tasks, absl::Time until) {
  EtcdFiles::Plan plan = files_.PlanFor(tasks);
  absl::Status status;
  size_t at = 0;
  for (; at < plan.changes.size() && status.ok(); ++at) {
    status = Commit(std::move(plan.changes[at]), until);
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].status = plan.ends[i] + 1 < at || status.ok() ? absl::OkStatus() : status;
  }
  return status;
}

absl::Status EtcdStore::Commit(EtcdChange change, absl::Time until) {
  const bool removes_only = change.puts.empty();
  if (!removes_only || unheard_) {
    const std::string name = absl::StrCat(right_.epoch, " ", ++changes_);
    change.puts.push_back({last_.key, name, 0});
    unheard_ = true;
    absl::Status status = UnderGuards(change, name, until);
    unheard_ = !status.ok();
    if (!removes_only || !absl::IsFailedPrecondition(status)) {
      return status;
    }
    change.puts.clear();
  }
  return UnderGuards(change, "", until);
}

absl::Status EtcdStore::UnderGuards(EtcdChange& change, const std::string& name, absl::Time until) {
  for (int tries = 0; tries < kTriesMax; ++tries) {
    change.guards = {right_.guard, last_};
    ASSIGN_OR_RETURN(const int64_t revision, client_.Change(change, until - BootNow()));
    if (revision != 0) {
      last_.mod_revision = name.empty() ? last_.mod_revision : revision;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const bool happened, HasHappened(name, until));
    if (happened) {
      return absl::OkStatus();
    }
  }
  return AnotherLeads();
}

absl::StatusOr<bool> EtcdStore::HasHappened(const std::string& name, absl::Time until) {
  ASSIGN_OR_RETURN(const std::vector<EtcdEntry> leader,
                   client_.Read(right_.guard.key, until - BootNow()));
  ASSIGN_OR_RETURN(const std::vector<EtcdEntry> last, client_.Read(last_.key, until - BootNow()));
  if (leader.empty() || leader.front().mod_revision != right_.guard.mod_revision) {
    return AnotherLeads();
  }
  last_.mod_revision = last.empty() ? 0 : last.front().mod_revision;
  return !last.empty() && last.front().value == name;
}

}  // namespace muster
