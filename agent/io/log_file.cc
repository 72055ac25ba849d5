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

// The pool's task and the pump both own the file: the task may outlive the pump when the file
// system hangs.
struct LogFile::Job {
  uv_work_t request{};
  std::shared_ptr<LogFile> file;
};

std::shared_ptr<LogFile> LogFile::Make(uv_loop_t* loop, std::string path) {
  std::shared_ptr<LogFile> file(new LogFile(loop, std::move(path)));
  file->self_ = file;
  return file;
}

std::shared_ptr<LogFile> LogFile::OnDescriptor(uv_loop_t* loop, int fd, std::string name) {
  std::shared_ptr<LogFile> file = Make(loop, std::move(name));
  file->fd_ = fd;
  file->opened_ = file->borrowed_ = true;
  return file;
}

LogFile::~LogFile() {
  if (fd_ >= 0 && !borrowed_) {
    close(fd_);
  }
}

void LogFile::Append(absl::string_view bytes) {
  if (told_) {
    return;
  }
  waiting_.append(bytes.data(), bytes.size());
  if (!busy_) {
    Start();
  }
}

void LogFile::Start() {
  busy_ = true;
  writing_.swap(waiting_);
  auto job = std::make_unique<Job>();
  job->file = self_.lock();
  job->request.data = job.get();
  uv_queue_work(
      loop_, &job.release()->request,
      [](uv_work_t* request) { static_cast<Job*>(request->data)->file->Work(); },
      [](uv_work_t* request, int) {
        const std::unique_ptr<Job> done(static_cast<Job*>(request->data));
        LogFile& file = *done->file;
        file.busy_ = false;
        file.writing_.clear();
        if (!file.error_.empty() && !file.told_) {
          file.told_ = true;
          file.waiting_.clear();
          LogWarning(absl::StrCat(file.error_, ": the rest of what goes there is lost"));
        }
        if (!file.waiting_.empty()) {
          file.Start();
        } else if (file.on_idle) {
          file.on_idle();
        }
      });
}

void LogFile::Work() {
  if (!opened_) {
    opened_ = true;
    error_ = MakeParents(path_);
    if (error_.empty()) {
      fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
      if (fd_ < 0) {
        error_ = absl::StrCat("open ", path_, ": ", std::strerror(errno));
      }
    }
  }
  for (size_t at = 0; at < writing_.size() && error_.empty();) {
    const ssize_t n = write(fd_, writing_.data() + at, writing_.size() - at);
    if (n < 0 && errno != EINTR) {
      error_ = absl::StrCat("write ", path_, ": ", std::strerror(errno));
    } else if (n > 0) {
      at += static_cast<size_t>(n);
    }
  }
}

}  // namespace muster
