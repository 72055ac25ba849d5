// Whether a service is down, as far as its hosts say so themselves.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster {

// Every address of every "HOST:PORT" has refused a connection: the hosts are there, and nothing
// listens. False where one has not, or has not said so by `deadline` of BootNow(): it may be cut
// off. A name blocks as long as its resolver does.
bool NobodyListens(const std::vector<std::string>& places, absl::Time deadline);

// The same of a cluster: of what was named, and of each member, whose places `members` holds. A
// place that was not named and is an address of this host's own loopback says nothing (a host's own
// name often is), and each member needs one that does.
bool NoMemberListens(const std::vector<std::string>& named,
                     const std::vector<std::vector<std::string>>& members, absl::Time deadline);

}  // namespace muster
