#include "launcher/jobs/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// A new socket that `put` (bind or connect) has put at its place. Through the folder's descriptor:
// the path may be longer than a socket's name can be. Invalid, with errno: it failed.
UniqueFd SocketAt(const std::string& folder, int (*put)(int, const sockaddr*, socklen_t)) {
  const UniqueFd at(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) {
    return UniqueFd();
  }
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%d/%s", at.get(),
                kControlSocket);
  if (fd.valid() && put(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    const int error = errno;
    fd.Reset();
    errno = error;
  }
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenAtControl(const std::string& folder, int backlog) {
  UniqueFd fd = SocketAt(folder, bind);
  if (!fd.valid() || listen(fd.get(), backlog) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("socket ", folder, "/", kControlSocket, ": ", std::strerror(errno)));
  }
  return fd;
}

absl::StatusOr<UniqueFd> ConnectToControl(const std::string& folder) {
  UniqueFd fd = SocketAt(folder, connect);
  if (!fd.valid()) {
    return absl::UnavailableError(std::strerror(errno));
  }
  return fd;
}

}  // namespace muster
