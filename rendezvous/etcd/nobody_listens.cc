#include "rendezvous/etcd/nobody_listens.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
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

enum class Answer : uint8_t {
  kRefuses,   // every address
  kUnknown,   // one has not, or there is none
  kLoopback,  // one of them is this host's own
};

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const uint32_t ip = ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
    return ip >> 24 == IN_LOOPBACKNET || ip == INADDR_ANY;
  }
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ip) || IN6_IS_ADDR_UNSPECIFIED(&ip);
}

Answer Ask(const std::string& place, bool loopback_counts, absl::Time deadline) {
  const size_t colon = place.rfind(':');
  std::string host = place.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), place.substr(colon + 1).c_str(), &hints, &found) != 0) {
    return Answer::kUnknown;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (!loopback_counts && IsLoopback(*one->ai_addr)) {
      return Answer::kLoopback;
    }
    if (!Refuses(*one, deadline)) {
      return Answer::kUnknown;
    }
  }
  return Answer::kRefuses;
}

// `named` have refused.
bool MemberRefuses(const std::vector<std::string>& places, const std::vector<std::string>& named,
                   absl::Time deadline) {
  bool said = false;
  for (const std::string& place : places) {
    const bool was_named = std::find(named.begin(), named.end(), place) != named.end();
    const Answer answer = was_named ? Answer::kRefuses : Ask(place, false, deadline);
    if (answer == Answer::kUnknown) {
      return false;
    }
    said = said || answer == Answer::kRefuses;
  }
  return said;
}

}  // namespace

bool NobodyListens(const std::vector<std::string>& places, absl::Time deadline) {
  return std::all_of(places.begin(), places.end(), [deadline](const std::string& place) {
    return Ask(place, true, deadline) == Answer::kRefuses;
  });
}

bool NoMemberListens(const std::vector<std::string>& named,
                     const std::vector<std::vector<std::string>>& members, absl::Time deadline) {
  return !members.empty() && NobodyListens(named, deadline) &&
         std::all_of(members.begin(), members.end(), [&](const std::vector<std::string>& places) {
           return MemberRefuses(places, named, deadline);
         });
}

}  // namespace muster
