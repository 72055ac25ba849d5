// What the members of etcd, as it lists them itself, mean for one master. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rendezvous/etcd/etcd_client.h"

namespace muster {

// "HOST:PORT" of an http or https URL; empty: it is another one.
std::string PlaceOfUrl(absl::string_view url);

// Where to ask whether a member runs: for each, every "HOST:PORT" of its client URLs that means
// the same on every host. Left out: localhost and its like, unless all of etcd is there and
// `named` (HOST:PORT) says so; what several members give. Nullopt: one of them cannot be asked, or
// there is none.
std::optional<std::vector<std::vector<std::string>>> PlacesToAsk(
    const std::vector<std::string>& named, const std::vector<EtcdMember>& members);

// What a user is to know who named fewer (--rdzv-store) than there are; empty: all are named.
std::string FewNamed(const std::vector<std::string>& named, const std::vector<EtcdMember>& members);

}  // namespace muster
