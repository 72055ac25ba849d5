#include "launcher/user_terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

winsize SizeOfStdin() {
  winsize size{};
  ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
  return size;
}

}  // namespace

absl::Status UserTerminal::Look(absl::string_view said, Terminal& pty) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        said, ": stdin and stdout of launch must be a terminal; without one leave it out (--stdin ",
        "says who reads what comes from a pipe)"));
  }
  const winsize size = SizeOfStdin();
  pty.rows = size.ws_row;
  pty.columns = size.ws_col;
  const char* term = std::getenv("TERM");
  pty.term = term == nullptr ? "" : term;
  return absl::OkStatus();
}

UserTerminal::UserTerminal(uv_loop_t* loop, std::function<void(uint16_t, uint16_t)> on_window)
    : on_window_(std::move(on_window)), resized_(loop, SIGWINCH, [this] {
        const winsize size = SizeOfStdin();
        on_window_(size.ws_row, size.ws_col);
      }) {
  resized_.Unref();
  tcgetattr(STDIN_FILENO, &before_);
  Take();
}

// In the background it is not ours, and asking for it would stop us.
void UserTerminal::Take() {
  if (raw_ || tcgetpgrp(STDIN_FILENO) != getpgrp()) {
    return;
  }
  termios raw = before_;
  cfmakeraw(&raw);
  raw.c_oflag |= OPOST;  // as srun: lines of the other ranks, and our own, begin at the left
  raw_ = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void UserTerminal::Restore() {
  if (std::exchange(raw_, false)) {
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
}

}  // namespace muster
