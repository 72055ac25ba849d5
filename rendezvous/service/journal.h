// The master's journal: a file for each job that has a round, in a folder or in etcd.
//
// Thread rule: everything on the thread of the loop given. The store is touched by a thread of
// libuv's pool, in one batch at a time; what comes meanwhile is the next batch (group commit).
// Invariants:
//  J1 `done` comes in the order of Write of a file, from the loop, after the bytes are durable;
//  J2 a store that takes nothing for write_max fails what waits for it, and all that comes
//     until it answers;
//  J3 one master has the store, and each that has it gets a higher epoch, durable before Open
//     returns;
//  J4 once the store says that another master has it, no `done` comes any more: what this one
//     would say is not true;
//  J5 what is to be removed is, as soon as the store can while this master lives: nobody takes over
//     a job that is over;
//  J6 no file's bytes take the time of the others': a write is no longer than what a slow disk
//  takes
//     within write_max, nor is a batch, and what finds no room in one lets others go before it.
// Bounded: a file holds the records of one round, and at most file_bytes_max; what waits, what
// comes within write_max.
#pragma once

#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/service/journal_codec.h"
#include "rendezvous/service/journal_store.h"

namespace muster {

struct JournalLimits {
  absl::Duration write_max = absl::Seconds(10);    // J2
  absl::Duration remove_again = absl::Seconds(5);  // after which J5 is tried again
  size_t file_bytes_max = kJournalFileBytesMax;    // beyond it a write fails (ResourceExhausted)
  // J6: of one write, likewise, and of a batch. In write_max a disk has to take 7 MB a second. A
  // round of 16384 nodes has some 20 MiB.
  size_t write_bytes_max = size_t{64} << 20;
};

class Journal {
 public:
  struct Found {
    uint64_t file = 0;
    std::string path;
    JournalFile content;
    bool same_clock = false;  // its times are of this boot
  };

  // In a folder (FolderStore::Open has its errors). Both name the file that another build has to
  // read, and what to do: FailedPrecondition.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(uv_loop_t* loop, const std::string& folder,
                                                       uint32_t epoch);
  // `on_superseded`: another master has the store (J4); once. Not for a store that never says so.
  static absl::StatusOr<std::unique_ptr<Journal>> On(uv_loop_t* loop,
                                                     std::shared_ptr<JournalStore> store,
                                                     std::function<void()> on_superseded = nullptr,
                                                     const JournalLimits& limits = JournalLimits());
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  uint32_t epoch() const { return store_->epoch(); }
  const std::string& clock() const { return clock_; }
  // The jobs of the masters before, once.
  std::vector<Found> TakeFound() { return std::move(found_); }
  // What is wrong with each file that cannot be read, once: DataLoss, with its path. It stays.
  std::vector<absl::Status> TakeDamaged() { return std::move(damaged_); }

  uint64_t NewFile() { return ++files_; }
  // Appends to the file, or, `anew`, takes its place. After an error the file is to be removed.
  void Write(uint64_t file, bool anew, std::string bytes, std::function<void(absl::Status)> done);
  void Remove(uint64_t file);
  // Of this file, with what waits; 0 = there is no such file.
  size_t BytesOf(uint64_t file) const;
  // Nothing waits for the disk.
  bool idle() const { return !busy_ && waiting_.empty(); }

 private:
  struct Waiting {
    JournalTask task;
    std::function<void(absl::Status)> done;
  };
  struct Batch {
    uv_work_t request{};
    std::shared_ptr<JournalStore> store;
    std::vector<JournalTask> tasks;
    bool superseded = false;
    std::weak_ptr<Journal*> owner;
  };
  Journal(uv_loop_t* loop, std::shared_ptr<JournalStore> store, std::function<void()> on_superseded,
          const JournalLimits& limits);

  absl::Status Find();
  // `mends`: gets what is to be done to the file before it is used.
  absl::StatusOr<Found> Decode(const StoredFile& stored, std::vector<JournalTask>& mends) const;
  absl::Status TookNothing() const;
  void Start();
  // Moves what the next batch has from what waits.
  void Fill(Batch& batch);
  void Ended(Batch& batch);
  void Late();

  uv_loop_t* const loop_;
  // Shared with the batch under way, which a store that hangs keeps for longer than this lives.
  const std::shared_ptr<JournalStore> store_;
  const std::function<void()> on_superseded_;
  const JournalLimits limits_;
  std::string clock_;
  std::map<uint64_t, size_t> bytes_;  // of each file, with what waits
  std::set<uint64_t> not_removed_;    // the store could not
  uint64_t files_ = 0;
  std::vector<Found> found_;
  std::vector<absl::Status> damaged_;
  std::deque<Waiting> waiting_;
  std::vector<std::function<void(absl::Status)>> under_way_;  // of the batch, in order
  bool busy_ = false;
  bool stuck_ = false;
  UvTimer late_;
  UvTimer again_;                   // for not_removed_
  std::shared_ptr<Journal*> self_;  // watched by the batch under way, which may outlive this
};

}  // namespace muster
