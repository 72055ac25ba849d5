// A terminal for one worker (--pty): its end is stdin, stdout and stderr of the worker, ours
// carries what the user types and sees. Any thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/base/unique_fd.h"

namespace muster {

struct PseudoTerminal {
  UniqueFd ours;
  UniqueFd workers;
};

// ResourceExhausted: the node has no more of them, or no /dev/pts.
absl::StatusOr<PseudoTerminal> OpenPseudoTerminal(uint16_t rows, uint16_t columns);

void SetTerminalSize(int terminal, uint16_t rows, uint16_t columns);

}  // namespace muster
