// At which addresses processes of other hosts reach this one.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric
  bool loopback = false;
};

// Of `all`, the best first: `nearest`, then in their order. `names`: those of these interfaces
// only, as GLOO_SOCKET_IFNAME has them (comma-separated); "": all but loopback, or loopback where
// there is nothing else. Pure.
std::vector<std::string> ChooseAddresses(const std::vector<InterfaceAddress>& all,
                                         std::string_view names, std::string_view nearest);

// GLOO_SOCKET_IFNAME chooses; the one from which MASTER_ADDR is reached is the nearest. May wait
// for a name server. `get` is getenv.
std::vector<std::string> OwnAddresses(const std::function<const char*(const char*)>& get);

}  // namespace muster
