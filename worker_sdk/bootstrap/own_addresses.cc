#include "worker_sdk/bootstrap/own_addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "proto/base/unique_fd.h"

namespace muster {
namespace {

constexpr char kInterfaces[] = "GLOO_SOCKET_IFNAME";
constexpr char kMaster[] = "MASTER_ADDR";

bool IsListed(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    if (names.substr(0, comma) == name) {
      return true;
    }
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return false;
}

std::string TextOf(const sockaddr* address, socklen_t bytes) {
  char text[NI_MAXHOST] = "";
  const bool known =
      getnameinfo(address, bytes, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? text : "";
}

std::vector<InterfaceAddress> AllAddresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  std::vector<InterfaceAddress> out;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    const bool is_v6 = one->ifa_addr->sa_family == AF_INET6;
    if (!is_v6 && one->ifa_addr->sa_family != AF_INET) {
      continue;
    }
    // An address of one link says nothing without the other side's number for it.
    if (is_v6 &&
        IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr)) {
      continue;
    }
    const socklen_t bytes = is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    out.push_back(
        {one->ifa_name, TextOf(one->ifa_addr, bytes), (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return out;
}

// Ours towards `host`; "": nobody knows. Sends nothing.
std::string AddressTowards(const char* host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  if (host == nullptr || getaddrinfo(host, "9", &hints, &first) != 0) {
    return "";
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(first, freeaddrinfo);
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    const UniqueFd fd(socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t bytes = sizeof(own);
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &bytes) == 0) {
      return TextOf(reinterpret_cast<sockaddr*>(&own), bytes);
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> ChooseAddresses(const std::vector<InterfaceAddress>& all,
                                         std::string_view names, std::string_view nearest) {
  std::vector<std::string> out;
  std::vector<std::string> loopback;
  for (const InterfaceAddress& one : all) {
    const bool is_meant = names.empty() ? !one.loopback : IsListed(names, one.interface);
    if (is_meant) {
      out.push_back(one.address);
    } else if (names.empty()) {
      loopback.push_back(one.address);
    }
  }
  out = out.empty() ? loopback : out;
  const auto best = std::find(out.begin(), out.end(), nearest);
  if (best != out.end()) {
    std::rotate(out.begin(), best, best + 1);
  }
  return out;
}

std::vector<std::string> OwnAddresses(const std::function<const char*(const char*)>& get) {
  const char* const names = get(kInterfaces);
  return ChooseAddresses(AllAddresses(), names == nullptr ? "" : names,
                         AddressTowards(get(kMaster)));
}

}  // namespace muster
