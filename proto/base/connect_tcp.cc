#include "proto/base/connect_tcp.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "proto/base/await_fd.h"
#include "proto/base/status_macros.h"

namespace muster {

absl::StatusOr<UniqueFd> BeginConnect(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return absl::UnavailableError(absl::StrCat("socket: ", std::strerror(errno)));
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return absl::UnavailableError(std::strerror(errno));
  }
  return fd;
}

absl::Status ConnectOutcome(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : absl::UnavailableError(std::strerror(error));
}

absl::StatusOr<UniqueFd> ConnectTcp(const std::string& host, const std::string& port,
                                    absl::Time deadline) {
  ASSIGN_OR_RETURN(UniqueFd fd, BeginConnect(host, port));
  RETURN_IF_ERROR(AwaitFd(fd.get(), POLLOUT, deadline, "an answer"));
  RETURN_IF_ERROR(ConnectOutcome(fd.get()));
  return fd;
}

}  // namespace muster
