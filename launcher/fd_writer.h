// Writes to a descriptor of ours (stdout, stderr) without ever blocking the loop, and without
// making it non-blocking for those who share it: a pipe or terminal is opened anew through /proc, a
// socket is written with MSG_DONTWAIT, a file on a thread of its own. Loop thread only.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "agent/io/log_file.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class FdWriter {
 public:
  FdWriter(uv_loop_t* loop, int fd, std::string name);
  ~FdWriter();

  bool terminal() const { return terminal_; }
  // Something waits: better not to bring more.
  bool Busy() const;
  // Nothing waits.
  bool Idle() const;
  void Write(absl::string_view bytes);
  // Why what is written is lost, where the disk behind it is full; "" while it is not.
  std::string lost() const { return file_ != nullptr ? file_->lost() : lost_; }
  std::function<void()> on_writable;  // Busy() has ended
  std::function<void()> before_rest;  // there is room again, and what waits here comes next
  std::function<void(const std::string&)>
      on_closed;  // nobody reads (EPIPE, a terminal that hung up); comes once

 private:
  enum class Kind { kOpenedAnew, kSocket, kFile, kSmallSteps };
  ssize_t TryWrite(absl::string_view bytes);
  // Takes from the front of `bytes` what can be written now; the error number where it fails for
  // good.
  int WriteSome(absl::string_view& bytes);
  void Flush(bool tell);
  void Widen();
  void Fail(int error, bool tell);

  uv_loop_t* const loop_;
  const int fd_;
  const std::string name_;
  Kind kind_ = Kind::kSmallSteps;
  bool terminal_ = false;
  bool failed_ = false;
  std::string lost_;
  UniqueFd own_;
  std::shared_ptr<LogFile> file_;
  std::string waiting_;
  size_t written_ = 0;          // of waiting_
  UniqueFd watcher_;            // of fd_, where that is written
  std::optional<UvPoll> poll_;  // closed before own_ and watcher_
};

// Of both; "": neither.
inline std::string LostOf(const FdWriter& out, const FdWriter& err) {
  return out.lost().empty() ? err.lost() : out.lost();
}

}  // namespace muster
