#include "launcher/fd_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/shared_fd.h"

namespace muster {
namespace {

constexpr size_t kBusyBytes = 1u << 20;  // waiting here; the rest waits with its agent
constexpr int kPipeBytes = 1 << 20;      // what Linux lets anyone have, of some 64 MB each in all

}  // namespace

FdWriter::FdWriter(uv_loop_t* loop, int fd, std::string name)
    : loop_(loop), fd_(fd), name_(std::move(name)) {
  terminal_ = isatty(fd) != 0;
  struct stat facts {};
  (void)fstat(fd, &facts);
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
    kind_ = Kind::kSmallSteps;  // the first write fails
  } else if (S_ISREG(facts.st_mode)) {
    kind_ = Kind::kFile;
    file_ = LogFile::OnDescriptor(std::make_shared<DiskThread>(loop), fd, name_);
    file_->on_idle = [this] {
      if (on_writable) {
        on_writable();
      }
    };
  } else if (S_ISSOCK(facts.st_mode)) {
    kind_ = Kind::kSocket;
  } else {
    own_.Reset(open(absl::StrCat("/proc/self/fd/", fd).c_str(),
                    O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    kind_ = own_.valid() ? Kind::kOpenedAnew : Kind::kSmallSteps;
  }
}

FdWriter::~FdWriter() {
  if (file_ != nullptr) {
    file_->on_idle = nullptr;
  }
}

bool FdWriter::Busy() const {
  return (file_ != nullptr ? file_->waiting_bytes() : waiting_.size() - written_) > kBusyBytes;
}

bool FdWriter::Idle() const { return file_ != nullptr ? file_->idle() : waiting_.empty(); }

ssize_t FdWriter::TryWrite(absl::string_view bytes) {
  switch (kind_) {
    case Kind::kSocket:
      return send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    case Kind::kSmallSteps: {
      pollfd ready = {fd_, POLLOUT, 0};
      if (poll(&ready, 1, 0) != 1) {
        errno = EAGAIN;
        return -1;
      }
      return write(fd_, bytes.data(),
                   std::min<size_t>(bytes.size(), PIPE_BUF));  // takes that much without blocking
    }
    case Kind::kOpenedAnew:
    case Kind::kFile:
      break;
  }
  return write(own_.get(), bytes.data(), bytes.size());
}

int FdWriter::WriteSome(absl::string_view& bytes) {
  while (!bytes.empty()) {
    const ssize_t n = TryWrite(bytes);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void FdWriter::Write(absl::string_view bytes) {
  if (failed_) {
    return;
  }
  if (file_ != nullptr) {
    file_->Append(bytes);
    return;
  }
  if (waiting_.empty()) {  // the usual case: nothing is copied
    if (const int error = WriteSome(bytes); error != 0) {
      return Fail(error, /*tell=*/false);
    }
  }
  waiting_.append(bytes.data(), bytes.size());
  if (!waiting_.empty()) {
    Flush(/*tell=*/false);
  }
}

void FdWriter::Flush(bool tell) {
  if (tell && before_rest) {
    before_rest();
  }
  const bool was_busy = Busy();
  absl::string_view rest = absl::string_view(waiting_).substr(written_);
  const int error = WriteSome(rest);
  written_ = waiting_.size() - rest.size();
  if (error != 0) {
    return Fail(error, tell);
  }
  if (written_ == waiting_.size()) {
    waiting_.clear();
    written_ = 0;
    if (poll_) {
      poll_->Stop();
    }
  } else {
    if (written_ > kBusyBytes) {
      waiting_.erase(0, written_);
      written_ = 0;
    }
    if (!poll_) {
      Widen();
      if (!own_.valid()) {
        watcher_ = WatchShared(fd_, EPOLLOUT);
      }
      poll_.emplace(loop_, own_.valid() ? own_.get() : watcher_.get(),
                    [this](int) { Flush(/*tell=*/true); });
    }
    poll_->Start(own_.valid() ? UV_WRITABLE : UV_READABLE);
  }
  // Never from within Write: its caller is still holding what it writes.
  if (tell && on_writable && (was_busy || waiting_.empty()) && !Busy()) {
    on_writable();
  }
}

// A pipe that was full once: fewer turns between us and who reads. May be refused.
void FdWriter::Widen() {
  const int bytes = own_.valid() ? fcntl(own_.get(), F_GETPIPE_SZ) : 0;
  if (bytes > 0 && bytes < kPipeBytes) {  // never a smaller one than was made
    fcntl(own_.get(), F_SETPIPE_SZ, kPipeBytes);
  }
}

void FdWriter::Fail(int error, bool tell) {
  failed_ = true;
  waiting_.clear();
  written_ = 0;
  if (poll_) {
    poll_->Stop();
  }
  const bool is_closed = error == EBADF;  // since before we began
  const std::string why =
      absl::StrCat(name_, ": ", is_closed ? "closed (> /dev/null is quiet)" : std::strerror(error));
  if (is_closed || IsFullDisk(error)) {
    lost_ = why;
    LogLost(why);
  } else if (on_closed) {
    on_closed(why);
  }
  if (tell && on_writable) {
    on_writable();
  }
}

}  // namespace muster
