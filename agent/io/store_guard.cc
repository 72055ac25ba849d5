#include "agent/io/store_guard.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr char kClosedTooSoon[] =
    "it was closed before it could be seen whose it is: what it has set is lost (--store-from any, "
    "or --store worker, where programs do that)";

// One end of a connection; IPv4 also where it came to a socket of IPv6.
struct End {
  int family = AF_UNSPEC;
  std::array<uint32_t, 4> address{};  // network order
  uint16_t port = 0;                  // likewise

  std::string Text() const {
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(family, address.data(), text, sizeof(text));
    return text;
  }
};

End EndOf(const sockaddr_storage& from) {
  End end;
  end.family = from.ss_family;
  if (from.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &from, sizeof(v4));
    std::memcpy(end.address.data(), &v4.sin_addr, sizeof(v4.sin_addr));
    end.port = v4.sin_port;
    return end;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &from, sizeof(v6));
  end.port = v6.sin6_port;
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    end.family = AF_INET;
    std::memcpy(end.address.data(), &v6.sin6_addr.s6_addr[12], sizeof(in_addr));
  } else {
    std::memcpy(end.address.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
  }
  return end;
}

// sock_diag(7): the one socket of this machine that is connected from `local` to `remote`.
std::optional<SocketOwner> OwnerOf(int diagnosis, const End& local, const End& remote) {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 body;
  } request{};
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = static_cast<uint8_t>(local.family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = UINT32_MAX;
  request.body.id.idiag_sport = local.port;
  request.body.id.idiag_dport = remote.port;
  std::memcpy(request.body.id.idiag_src, local.address.data(), sizeof(local.address));
  std::memcpy(request.body.id.idiag_dst, remote.address.data(), sizeof(remote.address));
  request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(diagnosis, &request, sizeof(request), MSG_DONTWAIT) != sizeof(request)) {
    return std::nullopt;
  }
  // The kernel answers before send() returns.
  struct {
    nlmsghdr header;
    inet_diag_msg body;
    char attributes[1024];
  } answer{};
  const ssize_t got = recv(diagnosis, &answer, sizeof(answer), MSG_DONTWAIT);
  if (got < static_cast<ssize_t>(sizeof(nlmsghdr) + sizeof(inet_diag_msg)) ||
      answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return std::nullopt;
  }
  return SocketOwner{answer.body.idiag_uid, answer.body.idiag_inode != 0};
}

}  // namespace

std::string StoreRefusal(absl::string_view address, const std::optional<SocketOwner>& owner,
                         const std::set<std::string>& addresses, uid_t uid) {
  if (owner.has_value() && !owner->open) {
    return kClosedTooSoon;
  }
  if (owner.has_value()) {
    return owner->uid == uid ? ""
                             : absl::StrCat("it is of uid ", owner->uid, ", the job's is ", uid,
                                            " (--store-from any lets everybody in)");
  }
  if (absl::StartsWith(address, "127.") || address == "::1" ||
      addresses.count(std::string(address)) != 0) {
    return "";
  }
  return "no node of this job has that address (--store-from any lets everybody in)";
}

StoreGuard::StoreGuard()
    : diagnosis_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}

void StoreGuard::Admit(const std::vector<std::string>& addresses) {
  std::set<std::string> all;
  for (const std::string& address : addresses) {
    End end;
    for (const int family : {AF_INET, AF_INET6}) {
      end.family = family;
      if (inet_pton(family, address.c_str(), end.address.data()) == 1) {
        all.insert(end.Text());
        break;
      }
    }
  }
  const MutexLock lock(mutex_);
  addresses_ = std::move(all);
}

std::string StoreGuard::RefusalOf(int client) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_size = sizeof(here);
  socklen_t there_size = sizeof(there);
  if (getsockname(client, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 ||
      getpeername(client, reinterpret_cast<sockaddr*>(&there), &there_size) != 0) {
    return kClosedTooSoon;
  }
  const End peer = EndOf(there);
  const MutexLock lock(mutex_);
  std::optional<SocketOwner> owner;
  if (diagnosis_.valid()) {
    owner = OwnerOf(diagnosis_.get(), peer, EndOf(here));
  }
  return StoreRefusal(peer.Text(), owner, addresses_, geteuid());
}

}  // namespace muster
