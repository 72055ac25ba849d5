#include "agent/io/pseudo_terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {

absl::StatusOr<PseudoTerminal> OpenPseudoTerminal(uint16_t rows, uint16_t columns) {
  PseudoTerminal out;
  constexpr size_t kPathBytesMax = 64;  // "/dev/pts/N"
  char path[kPathBytesMax];
  out.ours.Reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (out.ours.valid() && grantpt(out.ours.get()) == 0 && unlockpt(out.ours.get()) == 0 &&
      ptsname_r(out.ours.get(), path, sizeof(path)) == 0) {
    out.workers.Reset(open(path, O_RDWR | O_NOCTTY | O_CLOEXEC));
  }
  if (!out.workers.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--pty: no terminal for it: ", std::strerror(errno), " (is /dev/pts there?)"));
  }
  SetTerminalSize(out.ours.get(), rows, columns);
  return out;
}

void SetTerminalSize(int terminal, uint16_t rows, uint16_t columns) {
  winsize size{};
  size.ws_row = rows;
  size.ws_col = columns;
  ioctl(terminal, TIOCSWINSZ, &size);
}

}  // namespace muster
