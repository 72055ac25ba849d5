// Ports for the torch store: bound before they are announced. Any thread; blocks only on /proc.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/port_range.h"
#include "proto/base/unique_fd.h"

namespace muster {

struct BoundPort {
  UniqueFd fd;
  uint16_t port = 0;
};

// `address`: an IPv4 or IPv6 literal (a scope as in fe80::1%eth0 is allowed), or "" or "*" for
// every address of the machine, IPv6 and IPv4 on one socket where the machine has IPv6. `port`: 0 =
// any of `ports`. Errors: InvalidArgument (address), AlreadyExists (port in use: names address,
// port, who has it as far as /proc tells, and what to do), ResourceExhausted (all of `ports` are in
// use), PermissionDenied, Unavailable (no such address here).

// A socket that listens, with the longest queue the kernel allows.
absl::StatusOr<BoundPort> BindStorePort(absl::string_view address, uint16_t port,
                                        PortRange ports = {});

// A socket that is bound but does not listen: nobody gets the port by chance (bind(0), outgoing
// connections), connecting is refused, and a program that sets SO_REUSEADDR, as torch's rank 0
// does, can bind it and listen. Keep it until the workers have ended.
absl::StatusOr<BoundPort> ReservePort(absl::string_view address, uint16_t port,
                                      PortRange ports = {});

// Another socket at that port, which listens; the next one can once this is closed. Unavailable:
// somebody does already.
absl::StatusOr<UniqueFd> ListenBeside(const BoundPort& reserved);

// "pid 4242 (python3 train.py)", "a process of uid 1001", or "" where /proc does not tell: who
// listens on TCP port `port`, else who has a connection from it.
std::string WhoHasPort(uint16_t port);

}  // namespace muster
