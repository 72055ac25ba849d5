#include "launcher/answer.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "launcher/exit_codes.h"
#include "proto/base/log.h"
#include "proto/base/shared_fd.h"

namespace muster {

int PrintAnswer(absl::string_view text) {
  return WriteShared(STDOUT_FILENO, text) ? 0 : UnwrittenCode(errno);
}

bool WantsColour(bool terminal, absl::string_view no_color, absl::string_view term) {
  return terminal && no_color.empty() && !term.empty() && term != "dumb";
}

bool ColourOnStdout() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return absl::string_view(text == nullptr ? "" : text);
  };
  return WantsColour(isatty(STDOUT_FILENO) != 0, value("NO_COLOR"), value("TERM"));
}

int UnwrittenCode(int error) {
  if (error == EPIPE || error == ECONNRESET) {
    return kExitNobodyReads;
  }
  LogError(absl::StrCat("stdout: ", std::strerror(error)));
  return kExitFailed;
}

}  // namespace muster
