#include "proto/wire/bootstrap.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/await_fd.h"
#include "proto/base/build_info.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/wire/convert.h"

namespace muster {
namespace {

constexpr absl::string_view kAwaited = "bootstrap: the starter";

// Removes the pushed program, but only if it is the one that runs here.
void RemovePushedProgram() {
  const char* folder = std::getenv(kAgentTempVariable);
  if (folder == nullptr) {
    return;
  }
  const std::string file = absl::StrCat(folder, "/muster-agent");
  char self[4096];
  const ssize_t size = readlink("/proc/self/exe", self, sizeof(self));
  if (size > 0 && std::string(self, static_cast<size_t>(size)) == file) {
    unlink(file.c_str());
    rmdir(folder);
  }
  unsetenv(kAgentTempVariable);
}

absl::Status WriteAll(int fd, absl::string_view bytes, absl::Time deadline) {
  while (!bytes.empty()) {
    RETURN_IF_ERROR(AwaitFd(fd, POLLOUT, deadline, kAwaited));
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
      return absl::UnavailableError(
          absl::StrCat("bootstrap: the starter is gone: ", std::strerror(errno)));
    }
    bytes.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
  }
  return absl::OkStatus();
}

absl::Status ReadAll(int fd, char* data, size_t size, absl::Time deadline) {
  while (size > 0) {
    RETURN_IF_ERROR(AwaitFd(fd, POLLIN, deadline, kAwaited));
    const ssize_t n = read(fd, data, size);
    if (n == 0) {
      return absl::UnavailableError("bootstrap: the starter went away");
    }
    if (n < 0 && errno != EINTR && errno != EAGAIN) {
      return absl::UnavailableError(absl::StrCat("bootstrap: read: ", std::strerror(errno)));
    }
    if (n > 0) {
      data += n;
      size -= static_cast<size_t>(n);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AnnounceAgent(int fd_out, absl::Time deadline) {
  RemovePushedProgram();
  // The newline in front ends what a login shell may have left without one.
  return WriteAll(fd_out, absl::StrCat("\n", kAgentReadyLine, BuildName(), "\n"), deadline);
}

bool IsPushedAgent() { return std::getenv(kAgentTempVariable) != nullptr; }

absl::Status AnnounceGiving(int fd_out, uint16_t port, absl::string_view address,
                            absl::Time deadline) {
  return WriteAll(fd_out, absl::StrCat(kAgentGivesLine, port, " ", address, "\n"), deadline);
}

std::optional<ProgramGiverAddress> ParseGiving(absl::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  unsigned port = 0;
  if (!absl::ConsumePrefix(&line, kAgentGivesLine) || words.size() != 3 ||
      !absl::SimpleAtoi(words[1], &port) || port == 0 || port > 65535 || words[2].empty() ||
      words[2].find_first_not_of("0123456789abcdefABCDEF.:") != std::string::npos) {
    return std::nullopt;
  }
  return ProgramGiverAddress{words[2], static_cast<uint16_t>(port)};
}

absl::StatusOr<AgentBootstrap> ReadBootstrap(int fd_in, absl::Time deadline) {
  unsigned char head[4];
  RETURN_IF_ERROR(ReadAll(fd_in, reinterpret_cast<char*>(head), sizeof(head), deadline));
  const size_t size =
      (size_t{head[0]} << 24) | (size_t{head[1]} << 16) | (size_t{head[2]} << 8) | size_t{head[3]};
  if (size > kMessageBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("bootstrap: want at most ", kMessageBytesMax,
                                                   " bytes, the starter announces ", size));
  }
  std::string bytes(size, '\0');
  RETURN_IF_ERROR(ReadAll(fd_in, bytes.data(), size, deadline));
  v1::Bootstrap wire;
  if (!wire.ParseFromString(bytes)) {
    return absl::InvalidArgumentError("bootstrap: what came from the starter is no bootstrap");
  }
  return FromWire(wire);
}

absl::StatusOr<std::string> BootstrapFrame(const AgentBootstrap& bootstrap) {
  const std::string bytes = ToWire(bootstrap).SerializeAsString();
  if (bytes.size() > kMessageBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("bootstrap: want at most ", kMessageBytesMax,
                     " bytes of program, arguments and environment, got ", bytes.size(),
                     ": unset large variables, or name those to send with -x"));
  }
  std::string frame;
  for (const int shift : {24, 16, 8, 0}) {
    frame.push_back(static_cast<char>((bytes.size() >> shift) & 0xff));
  }
  return frame + bytes;
}

}  // namespace muster
