#include "agent/io/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"

namespace muster {
namespace {

std::string MakeParents(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
      return absl::StrCat("mkdir ", folder, ": ", std::strerror(errno));
    }
  }
  return "";
}

}  // namespace

absl::Status MakeLogFolder(const std::string& folder) {
  std::string error = folder.empty() ? "" : MakeParents(absl::StrCat(folder, "/"));
  if (error.empty() && !folder.empty() &&
      access(absl::StrCat(folder, "/.").c_str(), W_OK | X_OK) != 0) {
    error = std::strerror(errno);
  }
  return error.empty()
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "--log-dir ", folder, ": ", error,
                   ": no worker was started; give a folder that can be written on every ", "node"));
}

struct LogFile::OnDisk {
  ~OnDisk() {
    if (fd >= 0 && !borrowed) {
      close(fd);
    }
  }
  void Open();
  void Write();

  std::string path;
  std::string bytes;  // of this write
  std::string error;
  OldLines old = OldLines::kKept;
  int fd = -1;
  bool opened = false;
  bool borrowed = false;  // fd is the caller's
};

void LogLost(const std::string& why) {
  LogWarning(absl::StrCat(why, ": the rest of what goes there is lost"));
}

LogFile::LogFile(std::shared_ptr<DiskThread> disk, std::string path)
    : disk_(std::move(disk)), on_disk_(std::make_shared<OnDisk>()) {
  on_disk_->path = std::move(path);
}

std::shared_ptr<LogFile> LogFile::Make(std::shared_ptr<DiskThread> disk, std::string path,
                                       OldLines old) {
  std::shared_ptr<LogFile> file(new LogFile(std::move(disk), std::move(path)));
  file->on_disk_->old = old;
  file->self_ = file;
  return file;
}

std::shared_ptr<LogFile> LogFile::OnDescriptor(std::shared_ptr<DiskThread> disk, int fd,
                                               std::string name) {
  std::shared_ptr<LogFile> file = Make(std::move(disk), std::move(name));
  file->on_disk_->fd = fd;
  file->on_disk_->opened = file->on_disk_->borrowed = true;
  return file;
}

LogFile::~LogFile() {
  if (!on_disk_->borrowed && (busy_ || on_disk_->opened)) {  // closing may hang, too
    disk_->Run([on_disk = std::move(on_disk_)] {}, nullptr);
  }
}

void LogFile::Append(absl::string_view bytes) {
  if (!lost_.empty()) {
    return;
  }
  waiting_.append(bytes.data(), bytes.size());
  if (!busy_) {
    Start();
  }
}

void LogFile::Start() {
  if (const absl::Status started = disk_->Start(); !started.ok()) {
    return GiveUp(absl::StrCat(on_disk_->path, ": ", started.message()));
  }
  if (disk_->Full()) {
    return GiveUp(absl::StrCat(on_disk_->path, ": its disk does not answer"));
  }
  busy_ = true;
  on_disk_->bytes.swap(waiting_);
  writing_bytes_ = on_disk_->bytes.size();
  disk_->Run([on_disk = on_disk_] { on_disk->Write(); },
             [weak = self_] {
               if (const std::shared_ptr<LogFile> file = weak.lock()) {
                 file->OnWritten();
               }
             });
}

void LogFile::OnWritten() {
  busy_ = false;
  writing_bytes_ = 0;
  on_disk_->bytes.clear();
  if (!on_disk_->error.empty() && lost_.empty()) {
    GiveUp(on_disk_->error);
  } else if (on_written) {
    on_written();
  }
  if (!waiting_.empty()) {
    Start();
  } else if (on_idle) {
    on_idle();
  }
}

void LogFile::GiveUp(const std::string& why) {
  lost_ = why;
  waiting_.clear();
  LogLost(why);
  if (on_lost) {
    on_lost(why);
  }
}

void LogFile::OnDisk::Open() {
  opened = true;
  error = MakeParents(path);
  if (error.empty()) {
    const int begins = old == OldLines::kKept ? O_APPEND : O_TRUNC;
    fd = open(path.c_str(), O_WRONLY | O_CREAT | begins | O_CLOEXEC, 0666);
    if (fd < 0) {
      error = absl::StrCat("open ", path, ": ", std::strerror(errno));
    }
  }
}

void LogFile::OnDisk::Write() {
  if (!opened) {
    Open();
  }
  for (size_t at = 0; at < bytes.size() && error.empty();) {
    const ssize_t n = write(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno != EINTR) {
      error = absl::StrCat("write ", path, ": ", std::strerror(errno));
    } else if (n > 0) {
      at += static_cast<size_t>(n);
    }
  }
}

}  // namespace muster
