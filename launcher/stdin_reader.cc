#include "launcher/stdin_reader.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "proto/base/limits.h"
#include "proto/base/shared_fd.h"

namespace muster {
namespace {

constexpr absl::Duration kForegroundLook = absl::Milliseconds(200);

}  // namespace

StdinReader::StdinReader(uv_loop_t* loop, std::function<void(std::string, bool)> on_bytes)
    : loop_(loop), on_bytes_(std::move(on_bytes)) {}

bool StdinReader::NothingThere() {
  struct stat facts {};
  return fstat(STDIN_FILENO, &facts) != 0 ||
         (S_ISCHR(facts.st_mode) && facts.st_rdev == makedev(1, 3));  // /dev/null
}

void StdinReader::Start() {
  started_ = true;
  Watch();
}

bool StdinReader::Background() const {
  const pid_t foreground = tcgetpgrp(STDIN_FILENO);
  return foreground >= 0 && foreground != getpgrp();
}

void StdinReader::Watch() {
  if (!started_ || ended_) {
    return;
  }
  const bool background = Background();
  const bool want = under_way_ < kStdinWindow && !background;
  if (background) {
    if (!foreground_) {
      foreground_.emplace(loop_, [this] { Watch(); });
      foreground_->Unref();
    }
    foreground_->StartAfter(kForegroundLook);
  }
  if (!poll_ && !idle_) {
    watcher_ = WatchShared(STDIN_FILENO, EPOLLIN);
    if (watcher_.valid()) {
      poll_.emplace(loop_, watcher_.get(), [this](int) { ReadOnce(); });
      poll_->Unref();
    } else {  // also a closed descriptor: its end comes with the first read
      idle_.emplace(loop_, [this] { ReadOnce(); });
    }
  }
  if (poll_ && want) {
    poll_->Start(UV_READABLE);
  } else if (poll_) {
    poll_->Stop();
  } else if (idle_ && want) {
    idle_->Start();
  } else if (idle_) {
    idle_->Stop();
  }
}

void StdinReader::ReadOnce() {
  if (Background()) {
    return Watch();  // reading would stop us (SIGTTIN); SIGCONT brings us back
  }
  std::string bytes(64u << 10, '\0');
  const ssize_t n = read(STDIN_FILENO, bytes.data(), bytes.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR || (errno == EIO && Background()))) {
    return Watch();
  }
  if (n <= 0) {
    Stop();
    return on_bytes_("", true);
  }
  bytes.resize(static_cast<size_t>(n));
  under_way_ += bytes.size();
  on_bytes_(std::move(bytes), false);
  Watch();
}

void StdinReader::Taken(size_t bytes) {
  under_way_ -= bytes < under_way_ ? bytes : under_way_;
  Watch();
}

void StdinReader::Continued() { Watch(); }

void StdinReader::Stop() {
  ended_ = true;
  poll_.reset();
  idle_.reset();
  foreground_.reset();
}

}  // namespace muster
