#include "proto/base/messages.h"

#include <cerrno>

namespace muster {

int WorkerExit::ExitCode() const {
  switch (kind) {
    case ExitKind::kExited:
      return code;
    case ExitKind::kSignaled:
      return 128 + code;
    case ExitKind::kSpawnFailed:
      return code == ENOENT ? 127 : code == EACCES || code == ENOEXEC ? 126 : 1;
  }
  return 1;
}

}  // namespace muster
