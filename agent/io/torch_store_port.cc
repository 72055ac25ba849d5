#include "agent/io/torch_store_port.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress AnyV6(uint16_t port) {
  SocketAddress out;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_any;
  v6.sin6_port = htons(port);
  std::memcpy(&out.storage, &v6, sizeof(v6));
  out.length = sizeof(v6);
  return out;
}

SocketAddress V4(in_addr address, uint16_t port) {
  SocketAddress out;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr = address;
  v4.sin_port = htons(port);
  std::memcpy(&out.storage, &v4, sizeof(v4));
  out.length = sizeof(v4);
  return out;
}

absl::StatusOr<SocketAddress> Parse(absl::string_view address, uint16_t port) {
  const std::string text(address);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return V4(v4, port);
  }
  const size_t percent = text.find('%');
  SocketAddress out = AnyV6(port);
  sockaddr_in6 v6{};
  std::memcpy(&v6, &out.storage, sizeof(v6));
  if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), &v6.sin6_addr) == 1) {
    if (percent != std::string::npos) {
      v6.sin6_scope_id = if_nametoindex(text.c_str() + percent + 1);
      if (v6.sin6_scope_id == 0) {
        return absl::InvalidArgumentError(absl::StrCat("address of the torch store '", text,
                                                       "': there is no such interface here"));
      }
    }
    std::memcpy(&out.storage, &v6, sizeof(v6));
    return out;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("address of the torch store: '", text, "' is no IPv4 or IPv6 address"));
}

std::string Show(absl::string_view address, uint16_t port) {
  return HostPort(address.empty() ? "*" : address, port);
}

absl::Status BindError(absl::string_view address, uint16_t port, int error) {
  const std::string what = absl::StrCat("torch store: cannot use ", Show(address, port), ": ");
  switch (error) {
    case EADDRINUSE: {
      const std::string who = WhoHasPort(port);
      return absl::AlreadyExistsError(absl::StrCat(
          what, "the port is in use", who.empty() ? "" : absl::StrCat(" by ", who),
          "; stop that, give another port with --master-port, or leave the option out: then a free "
          "port is taken"));
    }
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat(what, "ports below 1024 are for root; give another one with --master-port"));
    case EADDRNOTAVAIL:
      return absl::UnavailableError(absl::StrCat(what, "this machine has no such address"));
    default:
      return absl::UnavailableError(absl::StrCat(what, strerror(error)));
  }
}

int SetOption(const UniqueFd& fd, int level, int name, int value) {
  return setsockopt(fd.get(), level, name, &value, sizeof(value));
}

// Is `port` held only by connections that are over (TIME_WAIT and the like)? Those appear in
// /proc/net; a bound socket that neither listens nor is connected does not.
bool HasRemains(uint16_t port);

// Not bound yet. Invalid, with errno, where there is none.
UniqueFd SocketFor(const SocketAddress& at) {
  UniqueFd fd(socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid() && at.storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&at.storage);
    SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) ? 0 : 1);
  }
  return fd;
}

// A socket bound to `at`; an errno otherwise. SO_REUSEADDR is set in the end, so that connections
// of this port which are over do not block its next use, but the port is first asked for without
// it: with it, two reservations of one port would both succeed.
absl::StatusOr<UniqueFd> OpenBound(const SocketAddress& at, uint16_t port, int& error) {
  for (const bool reuse_first : {false, true}) {
    UniqueFd fd = SocketFor(at);
    if (!fd.valid()) {
      error = errno;
      return absl::UnavailableError("socket");
    }
    if (reuse_first) {
      SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    }
    if (bind(fd.get(), at.get(), at.length) == 0) {
      SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
      return fd;
    }
    error = errno;
    if (error != EADDRINUSE || port == 0 || !HasRemains(port)) {
      break;
    }
  }
  return absl::UnavailableError("bind");
}

// An invalid descriptor comes with an errno in `error`; a status says that `address` is none.
absl::StatusOr<UniqueFd> TryBind(absl::string_view address, uint16_t port, int& error) {
  absl::StatusOr<UniqueFd> fd = absl::UnavailableError("");
  if (address.empty() || address == "*") {
    fd = OpenBound(AnyV6(port), port, error);
    if (!fd.ok() && (error == EAFNOSUPPORT || error == EADDRNOTAVAIL)) {  // no IPv6 here
      fd = OpenBound(V4(in_addr{INADDR_ANY}, port), port, error);
    }
  } else {
    ASSIGN_OR_RETURN(const SocketAddress at, Parse(address, port));
    fd = OpenBound(at, port, error);
  }
  return fd.ok() ? *std::move(fd) : UniqueFd();
}

absl::StatusOr<uint16_t> PortOf(const UniqueFd& fd, absl::string_view address, uint16_t port) {
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return BindError(address, port, errno);
  }
  return bound.ss_family == AF_INET ? ntohs(reinterpret_cast<sockaddr_in*>(&bound)->sin_port)
                                    : ntohs(reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port);
}

enum class Use : uint8_t { kKeep, kListen };

// Two sockets may be bound to one port where both set SO_REUSEADDR; only one of them may listen.
absl::StatusOr<UniqueFd> TryOpen(absl::string_view address, uint16_t port, Use use, int& error) {
  ASSIGN_OR_RETURN(UniqueFd fd, TryBind(address, port, error));
  // The kernel takes a queue of net.core.somaxconn at most.
  if (fd.valid() && use == Use::kListen && listen(fd.get(), INT_MAX) != 0) {
    error = errno;
    fd.Reset();
  }
  return fd;
}

absl::StatusOr<BoundPort> Open(absl::string_view address, uint16_t port, PortRange ports, Use use) {
  int error = 0;
  if (port != 0 || ports.Any()) {
    ASSIGN_OR_RETURN(UniqueFd fd, TryOpen(address, port, use, error));
    if (!fd.valid()) {
      return BindError(address, port, error);
    }
    ASSIGN_OR_RETURN(const uint16_t got, PortOf(fd, address, port));
    return BoundPort{std::move(fd), got};
  }
  for (const uint16_t one : PortsToTry(ports)) {
    ASSIGN_OR_RETURN(UniqueFd fd, TryOpen(address, one, use, error));
    if (fd.valid()) {
      return BoundPort{std::move(fd), one};
    }
    if (error != EADDRINUSE) {
      return BindError(address, one, error);
    }
  }
  return NoPortLeft(ports);
}

// A line of /proc/net/tcp or tcp6.
struct TcpLine {
  uint16_t port = 0;
  int state = 0;
  uint32_t uid = 0;
  uint64_t inode = 0;
};
constexpr int kListen = 0x0A;

std::vector<TcpLine> TcpLines(uint16_t port) {
  std::vector<TcpLine> out;
  for (const char* path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);  // headings
    while (std::getline(in, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
          timeout >> inode;
      const size_t colon = local.rfind(':');
      TcpLine parsed;
      uint32_t local_port = 0;
      if (colon == std::string::npos ||
          !absl::SimpleHexAtoi(local.substr(colon + 1), &local_port) || local_port != port ||
          !absl::SimpleHexAtoi(state, &parsed.state) || !absl::SimpleAtoi(uid, &parsed.uid) ||
          !absl::SimpleAtoi(inode, &parsed.inode)) {
        continue;
      }
      parsed.port = port;
      out.push_back(parsed);
    }
  }
  return out;
}

bool HasRemains(uint16_t port) {
  const std::vector<TcpLine> lines = TcpLines(port);
  return !lines.empty() && std::none_of(lines.begin(), lines.end(),
                                        [](const TcpLine& line) { return line.state == kListen; });
}

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), &closedir);
  if (dir == nullptr) {
    return out;
  }
  while (const dirent* entry = readdir(dir.get())) {
    out.emplace_back(entry->d_name);
  }
  return out;
}

std::string CommandOf(const std::string& pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/cmdline"), std::ios::binary);
  std::string words((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  while (!words.empty() && words.back() == '\0') {
    words.pop_back();
  }
  std::replace_if(
      words.begin(), words.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  constexpr size_t kShown = 120;
  return words.size() > kShown ? absl::StrCat(words.substr(0, kShown), "...") : words;
}

bool Holds(const std::string& pid, const std::string& wanted) {
  const std::string folder = absl::StrCat("/proc/", pid, "/fd/");
  for (const std::string& fd : Entries(folder)) {
    char target[64];
    const ssize_t n = readlink((folder + fd).c_str(), target, sizeof(target));
    if (n > 0 && absl::string_view(target, static_cast<size_t>(n)) == wanted) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<BoundPort> BindStorePort(absl::string_view address, uint16_t port, PortRange ports) {
  return Open(address, port, ports, Use::kListen);
}

absl::StatusOr<BoundPort> ReservePort(absl::string_view address, uint16_t port, PortRange ports) {
  return Open(address, port, ports, Use::kKeep);
}

absl::StatusOr<UniqueFd> ListenBeside(const BoundPort& reserved) {
  SocketAddress at;
  at.length = sizeof(at.storage);
  UniqueFd fd;
  if (getsockname(reserved.fd.get(), reinterpret_cast<sockaddr*>(&at.storage), &at.length) == 0) {
    fd = SocketFor(at);
  }
  if (!fd.valid() || SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1) != 0 ||
      bind(fd.get(), at.get(), at.length) != 0 || listen(fd.get(), INT_MAX) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen at port ", reserved.port, ": ", strerror(errno)));
  }
  return fd;
}

std::string WhoHasPort(uint16_t port) {
  std::vector<TcpLine> lines = TcpLines(port);
  std::stable_partition(lines.begin(), lines.end(),
                        [](const TcpLine& line) { return line.state == kListen; });
  for (const TcpLine& line : lines) {
    if (line.inode == 0) {
      continue;  // over, nobody's any more
    }
    const std::string wanted = absl::StrCat("socket:[", line.inode, "]");
    for (const std::string& pid : Entries("/proc")) {
      if (!pid.empty() && pid[0] >= '0' && pid[0] <= '9' && Holds(pid, wanted)) {
        const std::string command = CommandOf(pid);
        return absl::StrCat("pid ", pid, command.empty() ? "" : absl::StrCat(" (", command, ")"));
      }
    }
    return absl::StrCat("a process of uid ", line.uid);
  }
  return "";
}

}  // namespace muster
