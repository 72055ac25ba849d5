// The user's terminal in the hands of one worker (--pty): raw while the job runs, so that every key
// goes there, and what it was before as soon as the job has ended or is suspended. Loop thread
// only.
#pragma once

#include <termios.h>
#include <uv.h>

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/base/work_plan.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class UserTerminal {
 public:
  // FailedPrecondition where stdin or stdout is none; else `pty` has its size and TERM. `said`: the
  // option that asked for it.
  static absl::Status Look(absl::string_view said, Terminal& pty);

  // Raw from now on; `on_window` tells each new size.
  UserTerminal(uv_loop_t* loop, std::function<void(uint16_t rows, uint16_t columns)> on_window);
  ~UserTerminal() { Restore(); }
  UserTerminal(const UserTerminal&) = delete;
  UserTerminal& operator=(const UserTerminal&) = delete;

  void Take();  // again, after a suspension
  void Restore();

 private:
  const std::function<void(uint16_t, uint16_t)> on_window_;
  termios before_{};
  bool raw_ = false;
  UvSignal resized_;
};

}  // namespace muster
