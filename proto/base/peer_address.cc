#include "proto/base/peer_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"

namespace muster {

std::string PeerAddress(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return "";
  }
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(address).sin_addr, text, sizeof(text));
    return text;
  }
  if (address.ss_family != AF_INET6) {
    return "";
  }
  const auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    return text;
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  char name[IF_NAMESIZE];
  if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) && if_indextoname(v6.sin6_scope_id, name) != nullptr) {
    return absl::StrCat(text, "%", name);
  }
  return text;
}

}  // namespace muster
