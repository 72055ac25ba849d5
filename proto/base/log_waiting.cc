#include "proto/base/log_waiting.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/shared_fd.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

class WaitingLines {
 public:
  void Begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    struct stat facts {};
    // A file takes all, and a socket cannot be opened anew.
    if (on_ || fstat(STDERR_FILENO, &facts) != 0 || S_ISREG(facts.st_mode)) {
      return;
    }
    is_socket_ = S_ISSOCK(facts.st_mode);
    if (!is_socket_) {
      own_.Reset(open(absl::StrCat("/proc/self/fd/", STDERR_FILENO).c_str(),
                      O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    }
    on_ = is_socket_ || own_.valid();
  }

  bool Take(absl::string_view line) {
    if (!on_) {
      return false;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!on_) {
      return false;
    }
    if (!lines_.empty() && lines_.size() + line.size() > kLogWaitingMax) {
      ++lost_;
    } else {
      lines_.append(line.data(), line.size());
    }
    FlushLocked();
    return true;
  }

  void Flush() {
    const std::lock_guard<std::mutex> lock(mutex_);
    FlushLocked();
  }

  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!on_) {
      return;
    }
    on_ = false;
    TellLost();
    (void)WriteShared(STDERR_FILENO, std::exchange(lines_, ""));
    own_.Reset();
  }

 private:
  void FlushLocked() {
    while (!lines_.empty()) {
      const std::optional<size_t> taken = Write(absl::string_view(lines_).substr(0, WholeLines()));
      if (taken == 0) {
        return;
      }
      lines_.erase(0, taken.value_or(lines_.size()));  // what it refuses is lost
      if (lines_.empty()) {
        TellLost();
      }
    }
  }

  // As TryWriteShared.
  std::optional<size_t> Write(absl::string_view text) const {
    if (!is_socket_) {
      return TryWriteShared(own_.get(), text);
    }
    const ssize_t n = send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
      return std::nullopt;
    }
    return n > 0 ? static_cast<size_t>(n) : 0;
  }

  void TellLost() {
    if (lost_ > 0) {
      absl::StrAppend(&lines_, "muster: ", std::exchange(lost_, 0),
                      " more lines were lost: nobody read stderr\n");
    }
  }

  // As many as a pipe takes whole, or one.
  size_t WholeLines() const {
    const size_t end = lines_.rfind('\n', PIPE_BUF - 1);
    return end != std::string::npos ? end + 1 : std::min(lines_.find('\n'), lines_.size() - 1) + 1;
  }

  std::mutex mutex_;
  std::atomic<bool> on_{false};
  bool is_socket_ = false;
  UniqueFd own_;  // stderr, opened anew: nobody else's is made non-blocking
  std::string lines_;
  size_t lost_ = 0;
};

WaitingLines& TheLines() {
  static WaitingLines& lines = *new WaitingLines;
  return lines;
}

}  // namespace

void SetLogNeverWaits() { TheLines().Begin(); }
void FlushLog() { TheLines().Flush(); }
void SetLogWaits() { TheLines().End(); }
bool LogAside(absl::string_view line) { return TheLines().Take(line); }

}  // namespace muster
