// Who may use the torch store. Its protocol proves nothing, so what the kernel says of a connection
// decides: where it comes from, and on this machine, whose it is. Any thread; a look costs some
// 10 us.
//
// Invariants (cited by tests):
//  G1 from another machine: only from an address that a node of the job has named;
//  G2 from this machine, where the kernel tells (sock_diag): only of this process's user, and not
//     once the process that made it has closed it.
// Who has an account on one of the job's nodes and is not on this one passes G1.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/mutex.h"
#include "proto/base/unique_fd.h"

namespace muster {

// The owner of a socket on this machine.
struct SocketOwner {
  uid_t uid = 0;
  bool open = false;  // a process still has it
};

// Why a connection from `address` is not let in; "" = it is. `owner`: none = the other end is not
// on this machine, or the kernel does not tell. Addresses as inet_ntop writes them.
std::string StoreRefusal(absl::string_view address, const std::optional<SocketOwner>& owner,
                         const std::set<std::string>& addresses, uid_t uid);

class StoreGuard {
 public:
  StoreGuard();

  // Those of the job's nodes, instead of all that were given before; what is no IPv4 or IPv6
  // literal is left out.
  void Admit(const std::vector<std::string>& addresses);
  // The same of a TCP connection that was accepted here.
  std::string RefusalOf(int client);

 private:
  Mutex mutex_;
  std::set<std::string> addresses_ MUSTER_GUARDED_BY(mutex_);
  UniqueFd diagnosis_ MUSTER_GUARDED_BY(mutex_);  // netlink; invalid = the kernel does not tell
};

}  // namespace muster
