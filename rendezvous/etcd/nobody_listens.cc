#include "rendezvous/etcd/nobody_listens.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "proto/base/await_fd.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

bool Refuses(const addrinfo& address, absl::Time deadline) {
  const UniqueFd fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    return errno == EAFNOSUPPORT;  // so no service can be there
  }
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) {
    return false;
  }
  int error = errno;
  if (error == EINPROGRESS && AwaitFd(fd.get(), POLLOUT, deadline, "an answer").ok()) {
    socklen_t size = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  return error == ECONNREFUSED;
}

bool RefusesAt(const std::string& place, absl::Time deadline) {
  const size_t colon = place.rfind(':');
  std::string host = place.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), place.substr(colon + 1).c_str(), &hints, &found) != 0) {
    return false;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  bool refuses = true;
  for (; found != nullptr && refuses; found = found->ai_next) {
    refuses = Refuses(*found, deadline);
  }
  return refuses;
}

}  // namespace

bool NobodyListens(const std::vector<std::string>& places, absl::Time deadline) {
  return std::all_of(places.begin(), places.end(),
                     [deadline](const std::string& place) { return RefusesAt(place, deadline); });
}

}  // namespace muster
