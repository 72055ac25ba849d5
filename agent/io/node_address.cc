// Which address of this machine other nodes should use (node_facts.h, ChooseAddress).
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/io/node_facts.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

struct IpAddress {
  int family = AF_UNSPEC;
  std::array<uint8_t, 16> bytes{};
  uint32_t scope = 0;

  size_t bits() const { return family == AF_INET ? 32 : 128; }
  bool IsLoopback() const {
    if (family == AF_INET) {
      return bytes[0] == 127;
    }
    constexpr std::array<uint8_t, 16> kLoopback6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    return bytes == kLoopback6;
  }
  bool IsLinkLocal() const {
    return family == AF_INET ? bytes[0] == 169 && bytes[1] == 254
                             : bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  }
  bool operator==(const IpAddress& other) const {
    return family == other.family && bytes == other.bytes;
  }
  std::string ToString() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(family, bytes.data(), text.data(), text.size());
    return text.data();
  }
};

struct InterfaceAddress {
  std::string name;
  IpAddress address;
  bool is_loopback = false;
};

IpAddress FromSockaddr(const sockaddr* address) {
  IpAddress out;
  if (address->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address, sizeof in);
    out.family = AF_INET;
    std::memcpy(out.bytes.data(), &in.sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, address, sizeof in);
    out.family = AF_INET6;
    std::memcpy(out.bytes.data(), &in.sin6_addr, 16);
    out.scope = in.sin6_scope_id;
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
      out = {AF_INET, {out.bytes[12], out.bytes[13], out.bytes[14], out.bytes[15]}, 0};
    }
  }
  return out;
}

std::optional<IpAddress> ParseIp(absl::string_view text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  const std::string name(text);
  IpAddress out;
  if (inet_pton(AF_INET, name.c_str(), out.bytes.data()) == 1) {
    out.family = AF_INET;
    return out;
  }
  if (inet_pton(AF_INET6, name.c_str(), out.bytes.data()) == 1) {
    out.family = AF_INET6;
    return out;
  }
  return std::nullopt;
}

// Of interfaces that are up, in the kernel's order.
std::vector<InterfaceAddress> ListInterfaces() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, &freeifaddrs);
  std::vector<InterfaceAddress> out;
  for (const ifaddrs* i = list.get(); i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    const IpAddress address = FromSockaddr(i->ifa_addr);
    if (address.family != AF_UNSPEC) {
      out.push_back({i->ifa_name, address, (i->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  return out;
}

// Source address the kernel would use to reach `target`; no packet is sent.
std::optional<IpAddress> RouteSource(const IpAddress& target) {
  const UniqueFd fd(socket(target.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return std::nullopt;
  }
  sockaddr_storage storage{};
  socklen_t length = 0;
  constexpr uint16_t kAnyPort = 9;  // connect() of a datagram socket wants one; "discard"
  if (target.family == AF_INET) {
    auto* in = reinterpret_cast<sockaddr_in*>(&storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(kAnyPort);
    std::memcpy(&in->sin_addr, target.bytes.data(), 4);
    length = sizeof *in;
  } else {
    auto* in = reinterpret_cast<sockaddr_in6*>(&storage);
    in->sin6_family = AF_INET6;
    in->sin6_port = htons(kAnyPort);
    in->sin6_scope_id = target.scope;
    std::memcpy(&in->sin6_addr, target.bytes.data(), 16);
    length = sizeof *in;
  }
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0) {
    return std::nullopt;
  }
  length = sizeof storage;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return std::nullopt;
  }
  return FromSockaddr(reinterpret_cast<const sockaddr*>(&storage));
}

// Numeric, or resolved; IPv4 first, as all nodes have it where one has.
absl::StatusOr<std::vector<IpAddress>> Resolve(const std::string& host) {
  if (const auto literal = ParseIp(host); literal.has_value()) {
    return std::vector<IpAddress>{*literal};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &raw); error != 0) {
    return absl::UnavailableError(absl::StrCat("the master's host '", host,
                                               "' does not resolve here: ", gai_strerror(error),
                                               "; give its address, or --iface"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(raw, &freeaddrinfo);
  std::vector<IpAddress> out;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* i = list.get(); i != nullptr; i = i->ai_next) {
      if (i->ai_family == family) {
        out.push_back(FromSockaddr(i->ai_addr));
      }
    }
  }
  return out;
}

LocalAddress Named(const std::vector<InterfaceAddress>& interfaces, const IpAddress& address,
                   std::string why) {
  for (const InterfaceAddress& i : interfaces) {
    if (i.address == address) {
      return {address.ToString(), i.name, std::move(why)};
    }
  }
  return {address.ToString(), "", std::move(why)};
}

bool InNetwork(const IpAddress& address, const IpAddress& network, size_t prefix_bits) {
  if (address.family != network.family) {
    return false;
  }
  for (size_t bit = 0; bit < prefix_bits; ++bit) {
    if (((address.bytes[bit / 8] ^ network.bytes[bit / 8]) & (0x80 >> (bit % 8))) != 0) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<LocalAddress> ByIface(const std::string& iface,
                                     const std::vector<InterfaceAddress>& interfaces) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(iface, absl::MaxSplits('/', 1));
  const std::optional<IpAddress> network = ParseIp(parts.first);
  size_t prefix_bits = network.has_value() ? network->bits() : 0;
  const bool has_prefix = parts.first.size() != iface.size();
  uint32_t wanted_bits = 0;
  if (has_prefix && (!network.has_value() || !absl::SimpleAtoi(parts.second, &wanted_bits) ||
                     wanted_bits > prefix_bits)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--iface: want an interface, an address or a network like 10.1.0.0/16, got '", iface, "'"));
  }
  prefix_bits = has_prefix ? wanted_bits : prefix_bits;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const InterfaceAddress& i : interfaces) {
      const bool matches =
          network.has_value() ? InNetwork(i.address, *network, prefix_bits) : i.name == iface;
      if (matches && i.address.family == family && !i.address.IsLinkLocal()) {
        return LocalAddress{i.address.ToString(), i.name, absl::StrCat("--iface ", iface)};
      }
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--iface: nothing on ", Hostname(), " is or is in '", iface, "'; it has ",
                   absl::StrJoin(interfaces, ", ", [](std::string* out, const InterfaceAddress& i) {
                     absl::StrAppend(out, i.name, " ", i.address.ToString());
                   })));
}

// Interfaces that often have the same address on every host.
bool IsVirtualBridge(absl::string_view name) {
  for (const absl::string_view prefix : {"docker", "br-", "virbr", "veth", "lxc", "lxdbr", "cni",
                                         "kube-", "flannel", "podman", "vmnet", "vboxnet"}) {
    if (absl::StartsWith(name, prefix)) {
      return true;
    }
  }
  return false;
}

std::optional<LocalAddress> ByRoute(const std::vector<IpAddress>& targets,
                                    const std::vector<InterfaceAddress>& interfaces,
                                    absl::string_view why) {
  for (const IpAddress& target : targets) {
    const std::optional<IpAddress> source = RouteSource(target);
    if (source.has_value() && !source->IsLinkLocal() && !source->IsLoopback()) {
      return Named(interfaces, *source, std::string(why));
    }
  }
  return std::nullopt;
}

LocalAddress WithoutHint(const std::vector<InterfaceAddress>& interfaces) {
  // Addresses of documentation: routed like any other, and nothing is sent to them.
  const std::vector<IpAddress> outside = {*ParseIp("198.51.100.1"), *ParseIp("2001:db8::1")};
  if (auto chosen = ByRoute(outside, interfaces, "the default route"); chosen.has_value()) {
    return *chosen;
  }
  for (const bool bridges : {false, true}) {
    for (const int family : {AF_INET, AF_INET6}) {
      for (const InterfaceAddress& i : interfaces) {
        if (i.address.family == family && !i.is_loopback && !i.address.IsLoopback() &&
            !i.address.IsLinkLocal() && IsVirtualBridge(i.name) == bridges) {
          return {i.address.ToString(), i.name, "the first interface that is up"};
        }
      }
    }
  }
  return {"127.0.0.1", "lo", "no other interface is up"};
}

bool IsOwn(const IpAddress& address) {
  const std::vector<InterfaceAddress> interfaces = ListInterfaces();
  return std::any_of(interfaces.begin(), interfaces.end(),
                     [&](const InterfaceAddress& own) { return own.address == address; });
}

}  // namespace

bool IsThisMachine(const std::string& host) {
  const std::optional<IpAddress> address = ParseIp(host);
  return host == "localhost" || host == Hostname() || (address.has_value() && IsOwn(*address));
}

bool ResolvesHere(const std::string& host) {
  if (IsThisMachine(host)) {
    return true;
  }
  const absl::StatusOr<std::vector<IpAddress>> addresses = Resolve(host);
  return addresses.ok() && !addresses->empty() &&
         std::all_of(addresses->begin(), addresses->end(), [](const IpAddress& address) {
           return address.IsLoopback() || IsOwn(address);
         });
}

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> out;
  const std::vector<InterfaceAddress> interfaces = ListInterfaces();
  for (const bool bridges : {false, true}) {
    for (const InterfaceAddress& own : interfaces) {
      if (!own.address.IsLoopback() && !own.address.IsLinkLocal() &&
          IsVirtualBridge(own.name) == bridges) {
        out.push_back(own.address.ToString());
      }
    }
  }
  return out;
}

absl::StatusOr<LocalAddress> ChooseAddress(const NodeQuery& query) {
  const std::vector<InterfaceAddress> interfaces = ListInterfaces();
  if (!query.iface.empty()) {
    return ByIface(query.iface, interfaces);
  }
  if (!query.route_to.empty()) {
    const absl::StatusOr<std::vector<IpAddress>> targets = Resolve(query.route_to);
    if (!targets.ok() && !query.route_is_hint) {
      return targets.status();
    }
    const std::string why = absl::StrCat("the route to ", query.route_to);
    if (auto chosen = ByRoute(targets.value_or(std::vector<IpAddress>()), interfaces, why)) {
      return *chosen;
    }
  }
  const std::vector<absl::string_view> ssh = absl::StrSplit(query.ssh_connection, ' ');
  if (ssh.size() == 4) {  // "client port server port"
    const std::optional<IpAddress> server = ParseIp(ssh[2]);
    if (server.has_value() && !server->IsLinkLocal() && !server->IsLoopback()) {
      return Named(interfaces, *server, "the address by which ssh reached this node");
    }
  }
  return WithoutHint(interfaces);
}

}  // namespace muster
