#include "proto/base/log.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/log_waiting.h"

namespace muster {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

std::function<void(LogLevel, absl::string_view)>& Sink() {
  static auto* sink = new std::function<void(LogLevel, absl::string_view)>;
  return *sink;
}

// One write, so that lines of several processes do not mix; what stderr refuses is lost.
void WriteLine(absl::string_view line) {
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, line.data(), line.size());
}

// However long that takes, also where somebody has made stderr non-blocking.
void WriteAll(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd ready = {STDERR_FILENO, POLLOUT, 0};
      (void)poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return;  // it refuses
    }
  }
}

// Lines that no reader holds up, while it is on. Any thread.
class Unhurried {
 public:
  bool on() const { return on_; }

  void Begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    struct stat facts {};
    // A file takes all, and a socket cannot be opened anew.
    if (on_ || fstat(STDERR_FILENO, &facts) != 0 || S_ISREG(facts.st_mode)) {
      return;
    }
    is_socket_ = S_ISSOCK(facts.st_mode);
    if (!is_socket_) {
      own_ = open(absl::StrCat("/proc/self/fd/", STDERR_FILENO).c_str(),
                  O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    }
    on_ = is_socket_ || own_ >= 0;
  }

  void Say(absl::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!on_) {
      return WriteLine(line);
    }
    if (!waiting_.empty() && waiting_.size() + line.size() > kLogWaitingMax) {
      ++lost_;
    } else {
      waiting_.append(line.data(), line.size());
    }
    Flush();
  }

  void FlushNow() {
    const std::lock_guard<std::mutex> lock(mutex_);
    Flush();
  }

  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!on_) {
      return;
    }
    on_ = false;
    Flush();
    TellLost();
    WriteAll(std::exchange(waiting_, ""));
    if (own_ >= 0) {
      close(std::exchange(own_, -1));
    }
  }

 private:
  void Flush() {
    while (!waiting_.empty()) {
      const size_t some = WholeLines();
      const ssize_t n =
          is_socket_ ? send(STDERR_FILENO, waiting_.data(), some, MSG_DONTWAIT | MSG_NOSIGNAL)
                     : write(own_, waiting_.data(), some);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n < 0 && errno == EAGAIN) {
        return;
      }
      waiting_.erase(0, n < 0 ? std::string::npos : static_cast<size_t>(n));  // it refuses: lost
      if (waiting_.empty()) {
        TellLost();
      }
    }
  }

  void TellLost() {
    if (lost_ > 0) {
      absl::StrAppend(&waiting_, "muster: ", std::exchange(lost_, 0),
                      " more lines were lost: nobody read stderr\n");
    }
  }

  // As many as a pipe takes whole, or one.
  size_t WholeLines() const {
    const size_t end = waiting_.rfind('\n', PIPE_BUF - 1);
    return end != std::string::npos ? end + 1
                                    : std::min(waiting_.find('\n'), waiting_.size() - 1) + 1;
  }

  std::mutex mutex_;
  std::atomic<bool> on_{false};
  bool is_socket_ = false;
  int own_ = -1;  // stderr, opened anew: nobody else's is made non-blocking
  std::string waiting_;
  size_t lost_ = 0;
};

Unhurried& TheUnhurried() {
  static Unhurried& unhurried = *new Unhurried;
  return unhurried;
}

}  // namespace

void SetLogNeverWaits() { TheUnhurried().Begin(); }
void FlushLog() { TheUnhurried().FlushNow(); }
void SetLogWaits() { TheUnhurried().End(); }

void SetLogLevel(LogLevel level) { g_level = level; }

void SetLogLevelByName(absl::string_view name) {
  constexpr std::pair<absl::string_view, LogLevel> kNames[] = {{"debug", LogLevel::kDebug},
                                                               {"info", LogLevel::kInfo},
                                                               {"warning", LogLevel::kWarning},
                                                               {"error", LogLevel::kError}};
  for (const auto& [known, level] : kNames) {
    if (name == known) {
      SetLogLevel(level);
    }
  }
}

void SetLogLevelFromEnvironment() {
  const char* level = std::getenv("MUSTER_LOG");
  if (level != nullptr) {
    SetLogLevelByName(level);
  }
}

void SetLogSink(std::function<void(LogLevel, absl::string_view)> sink) { Sink() = std::move(sink); }

void Log(LogLevel level, absl::string_view text) {
  if (level < g_level) {
    return;
  }
  if (Sink()) {
    Sink()(level, text);
    return;
  }
  const std::string line = absl::StrCat("muster: ", text, "\n");
  if (TheUnhurried().on()) {
    TheUnhurried().Say(line);
  } else {
    WriteLine(line);
  }
}

}  // namespace muster
