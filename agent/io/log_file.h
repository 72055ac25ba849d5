// One worker's log file, or a file that is our own output. Making folders, opening, writing and
// closing happen on a DiskThread, so that a hung file system delays nobody but those who write to
// it. Loop thread only.
//
// Invariants:
//  L1 the file gets what was appended, in order; at most one write and one close are outstanding;
//  L2 a destructor never waits: a write under way still ends, what waits behind it is given up.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "agent/io/disk_thread.h"

namespace muster {

// Before the first worker starts: makes the folder of --log-dir ("" = there is none), or says why
// it could not hold files. Blocks on the disk.
absl::Status MakeLogFolder(const std::string& folder);

// Logs that what is to be written from now on is lost, for this reason.
void LogLost(const std::string& why);

// Of a file that is there already.
enum class OldLines {
  kKept,     // ours go behind them, also where another job writes there
  kReplaced  // by ours
};

class LogFile {
 public:
  // `path`'s folders are made. A problem is logged and told once per file, and the rest of the
  // output is dropped. `disk` is shared by the files of one place and whoever made it.
  static std::shared_ptr<LogFile> Make(std::shared_ptr<DiskThread> disk, std::string path,
                                       OldLines old = OldLines::kKept);
  // An open descriptor that stays the caller's; `name` is what messages call it.
  static std::shared_ptr<LogFile> OnDescriptor(std::shared_ptr<DiskThread> disk, int fd,
                                               std::string name);

  ~LogFile();
  // The file is made when the first ones come, be they none ("").
  void Append(absl::string_view bytes);
  size_t waiting_bytes() const { return waiting_.size() + writing_bytes_; }
  // Why what was appended since is lost; "" while nothing is.
  const std::string& lost() const { return lost_; }
  bool idle() const { return !busy_ && waiting_.empty(); }
  std::function<void()> on_idle;     // everything appended so far is in the file (or given up)
  std::function<void()> on_written;  // some of it is
  std::function<void(const std::string& why)> on_lost;  // lost() is there

 private:
  struct OnDisk;
  LogFile(std::shared_ptr<DiskThread> disk, std::string path);
  void Start();
  void OnWritten();
  void GiveUp(const std::string& why);

  const std::shared_ptr<DiskThread> disk_;
  // Ours and the outstanding work's, which may outlive us; the loop leaves it alone while busy_.
  std::shared_ptr<OnDisk> on_disk_;
  std::string waiting_;
  size_t writing_bytes_ = 0;
  bool busy_ = false;
  std::string lost_;
  std::weak_ptr<LogFile> self_;  // for a `done` that comes when we are gone
};

}  // namespace muster
