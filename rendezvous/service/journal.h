// The master's journal: a folder with a file for each job that has a round.
//
// Thread rule: everything on the thread of the loop given. The disk is touched by a thread of
// libuv's pool, in one batch at a time; what comes meanwhile is the next batch (group commit).
// Invariants:
//  J1 `done` comes in the order of Write, from the loop, after the bytes are on the disk;
//  J2 a file has its name only when it is whole: a new one displaces the old one by rename;
//  J3 a disk that takes nothing for kJournalWriteMax fails what waits for it, and all that comes
//     until it answers;
//  J4 one process has the folder (flock), and each that has it gets a higher epoch, on the disk
//     before Open returns.
// Bounded: a file holds the records of one round; what waits, what comes within kJournalWriteMax.
#pragma once

#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/service/journal_codec.h"

namespace muster {

inline constexpr absl::Duration kJournalWriteMax = absl::Seconds(10);
inline constexpr size_t kJournalFileBytesMax = size_t{1} << 30;

class Journal {
 public:
  struct Found {
    uint64_t file = 0;
    std::string path;
    JournalFile content;
    bool same_clock = false;  // its times are of this boot
  };

  // Makes the folder if it is not there. `epoch`: at least this. Errors name the folder or the
  // file, and what to do: AlreadyExists (another process has it), DataLoss, FailedPrecondition
  // (another build), and those of the file system.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(uv_loop_t* loop, const std::string& folder,
                                                       uint32_t epoch);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  uint32_t epoch() const { return epoch_; }
  const std::string& clock() const { return clock_; }
  // The jobs of the masters before, once.
  std::vector<Found> TakeFound() { return std::move(found_); }

  uint64_t NewFile() { return ++files_; }
  // Appends to the file, or, `anew`, takes its place. After an error the file is to be removed.
  void Write(uint64_t file, bool anew, std::string bytes, std::function<void(absl::Status)> done);
  void Remove(uint64_t file);

 private:
  enum class What : uint8_t { kAppend, kReplace, kRemove };
  struct Task {
    What what = What::kAppend;
    uint64_t file = 0;
    std::string bytes;
    std::function<void(absl::Status)> done;
    absl::Status status;
  };
  struct Batch {
    uv_work_t request{};
    std::string folder;
    std::vector<Task> tasks;
    std::weak_ptr<Journal*> owner;
  };
  Journal(uv_loop_t* loop, std::string folder);

  absl::Status Lock(uint32_t epoch);
  absl::Status Find();
  absl::Status FindFile(const std::string& name);
  void Start();
  void Ended(Batch& batch);
  void Late();
  static void Execute(Batch& batch);

  uv_loop_t* const loop_;
  const std::string folder_;
  std::string clock_;
  UniqueFd lock_;
  uint32_t epoch_ = 0;
  uint64_t files_ = 0;
  std::vector<Found> found_;
  std::deque<Task> waiting_;
  std::vector<std::function<void(absl::Status)>> under_way_;  // of the batch, in order
  bool busy_ = false;
  bool stuck_ = false;
  UvTimer late_;
  std::shared_ptr<Journal*> self_;  // watched by the batch under way, which may outlive this
};

}  // namespace muster
