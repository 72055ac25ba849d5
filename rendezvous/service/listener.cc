#include "rendezvous/service/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/peer_address.h"
#include "proto/base/status_macros.h"
#include "proto/tls/session.h"

namespace muster {
namespace {

constexpr char kHttp2Preface[] = "PRI * HTTP/2.0";  // RFC 9113 section 3.4
constexpr int kBacklog = 4096;                      // all nodes of a job come at once

struct ListenAddress {
  std::string host;
  uint16_t port = 0;
};

absl::StatusOr<ListenAddress> SplitHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  ListenAddress out;
  uint32_t port = 0;
  if (colon != absl::string_view::npos) {
    absl::string_view host = address.substr(0, colon);
    const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
    if ((bracketed || host.find(':') == absl::string_view::npos) &&
        absl::SimpleAtoi(address.substr(colon + 1), &port) && port <= 65535) {
      out.host = std::string(host);
      out.port = static_cast<uint16_t>(port);
      return out;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "want ADDR:PORT or [ADDR]:PORT with port 0..65535, as in [::]:29400; got '", address, "'"));
}

absl::Status BindError(int error, absl::string_view address, uint16_t port) {
  const std::string what = absl::StrCat("listen on ", address, ": ");
  switch (error) {
    case EADDRINUSE: {
      const std::string owner = PortOwner(port);
      return absl::AlreadyExistsError(absl::StrCat(what, "the port is in use",
                                                   owner.empty() ? "" : " by ", owner,
                                                   ": stop that, or take another port"));
    }
    case EADDRNOTAVAIL:
      return absl::NotFoundError(absl::StrCat(what, "not an address of this machine"));
    case EACCES:
      return absl::PermissionDeniedError(absl::StrCat(what, "not allowed: take a port above 1023"));
    default:
      return absl::UnavailableError(absl::StrCat(what, std::strerror(error)));
  }
}

uint16_t PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// A bound and listening socket, or invalid with errno. `port`: in place of that in `where`.
UniqueFd Open(const addrinfo& where, uint16_t port) {
  sockaddr_storage address{};
  std::memcpy(&address, where.ai_addr, where.ai_addrlen);
  (where.ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                               : reinterpret_cast<sockaddr_in&>(address).sin_port) = htons(port);
  UniqueFd socket(::socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const int off = 0;
  if (!socket.valid() || setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      (where.ai_family == AF_INET6 &&  // [::] serves IPv4 too
       setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), where.ai_addrlen) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    const int error = errno;
    socket.Reset();
    errno = error;
  }
  return socket;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const char* host, absl::string_view address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host, nullptr, &hints, &found);
  if (failed != 0) {
    return absl::NotFoundError(
        absl::StrCat("listen on ", address, ": ", gai_strerror(failed), ": is the name right?"));
  }
  return Addresses(found, &freeaddrinfo);
}

// At the first of the addresses that can be had; else invalid with errno.
UniqueFd OpenFirst(const addrinfo* where, uint16_t port) {
  UniqueFd socket;
  for (; !socket.valid() && where != nullptr; where = where->ai_next) {
    socket = Open(*where, port);
  }
  return socket;
}

// The same for the ports that may be taken; `port` is the last one that was tried.
UniqueFd OpenOneOf(const std::vector<uint16_t>& ports, const addrinfo* where, uint16_t& port) {
  UniqueFd socket;
  for (const uint16_t one : ports) {
    port = one;
    socket = OpenFirst(where, one);
    if (socket.valid() || errno != EADDRINUSE) {
      break;
    }
  }
  return socket;
}

}  // namespace

absl::Status CheckListenAddress(absl::string_view address) {
  return SplitHostPort(address).status();
}

Listener::Listener(uv_loop_t* loop, Callbacks callbacks)
    : loop_(loop),
      callbacks_(std::move(callbacks)),
      timer_(std::make_unique<UvTimer>(loop, [this] { DropLate(); })),
      again_(std::make_unique<UvTimer>(loop, [this] {
        for (Door& door : doors_) {
          door.poll->Start(UV_READABLE);
        }
      })) {}

absl::StatusOr<uint16_t> Listener::Listen(absl::string_view address, PortRange ports) {
  ASSIGN_OR_RETURN(const ListenAddress parts, SplitHostPort(address));
  const char* host = parts.host.empty() || parts.host == "*" ? "::" : parts.host.c_str();
  ASSIGN_OR_RETURN(const Addresses found, Resolve(host, address));
  const bool chosen = parts.port == 0 && !ports.Any();
  uint16_t port = 0;
  UniqueFd socket =
      OpenOneOf(chosen ? PortsToTry(ports) : std::vector<uint16_t>{parts.port}, found.get(), port);
  if (!socket.valid() && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL) &&
      std::strcmp(host, "::") == 0) {  // a kernel without IPv6
    return Listen(absl::StrCat("0.0.0.0:", parts.port), ports);
  }
  if (!socket.valid()) {
    return chosen && errno == EADDRINUSE ? NoPortLeft(ports) : BindError(errno, address, port);
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return absl::InternalError(absl::StrCat("listen on ", address, ": ", std::strerror(errno)));
  }
  const int fd = socket.get();
  doors_.push_back(
      {std::move(socket), std::make_unique<UvPoll>(loop_, fd, [this, fd](int) { Accept(fd); })});
  doors_.back().poll->Start(UV_READABLE);
  return PortOf(bound);
}

void Listener::Close() {
  for (Door& door : doors_) {
    door.poll.reset();
  }
  doors_.clear();
  while (!silent_.empty()) {
    Drop(silent_.begin()->first);
  }
  timer_->Stop();
  again_->Stop();
}

void Listener::Accept(int door) {
  // Some at a time, so that a flood of connections does not hold the loop.
  for (int i = 0; i < 64; ++i) {
    UniqueFd socket(accept4(door, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        LogWarning(absl::StrCat("a connection cannot be accepted: ", std::strerror(errno),
                                ": raise `ulimit -n`; trying again in a second"));
        for (Door& one : doors_) {
          one.poll->Stop();
        }
        again_->StartAfter(absl::Seconds(1));
      }
      return;
    }
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    const int fd = socket.get();
    std::string peer = PeerAddress(fd);
    const uint64_t id = ++next_id_;
    if (const std::optional<uint64_t> gone = crowd_.Enter(id, peer)) {
      silent_.erase(*gone);
    }
    Silent& here = silent_[id];
    here = {std::move(socket), std::move(peer), BootNow() + kFirstBytesTime, nullptr};
    here.poll = std::make_unique<UvPoll>(loop_, fd, [this, id](int) { FirstBytes(id); });
    here.poll->Start(UV_READABLE);
    if (!timer_->active()) {
      timer_->StartAfter(kFirstBytesTime);
    }
  }
}

void Listener::FirstBytes(uint64_t id) {
  Silent& silent = silent_.at(id);
  char bytes[sizeof(kHttp2Preface) - 1];
  const ssize_t n = recv(silent.socket.get(), bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n <= 0) {
    return Drop(id);
  }
  // One byte tells: nothing else that may come here starts with either.
  const bool tls = bytes[0] == kTlsFirstByte;
  const bool grpc = bytes[0] == kHttp2Preface[0];
  silent.poll.reset();
  UniqueFd socket = std::move(silent.socket);
  std::string peer = std::move(silent.peer);
  Drop(id);
  const auto& next = tls ? callbacks_.on_tls : grpc ? callbacks_.on_grpc : callbacks_.on_foreign;
  if (next) {
    next(std::move(socket), std::move(peer));
  }
}

void Listener::Drop(uint64_t id) {
  silent_.erase(id);
  crowd_.Leave(id);
}

void Listener::DropLate() {
  const absl::Time now = BootNow();
  while (!silent_.empty() && silent_.begin()->second.deadline <= now) {
    Drop(silent_.begin()->first);
  }
  if (!silent_.empty()) {
    timer_->StartAt(silent_.begin()->second.deadline);
  }
}

}  // namespace muster
