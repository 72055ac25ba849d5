#include "launcher/answer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "launcher/exit_codes.h"
#include "proto/base/log.h"
#include "proto/base/shared_fd.h"

namespace muster {

int PrintAnswer(absl::string_view text) {
  return WriteShared(STDOUT_FILENO, text) ? 0 : UnwrittenCode(errno);
}

int UnwrittenCode(int error) {
  if (error == EPIPE || error == ECONNRESET) {
    return kExitNobodyReads;
  }
  LogError(absl::StrCat("stdout: ", std::strerror(error)));
  return kExitFailed;
}

}  // namespace muster
