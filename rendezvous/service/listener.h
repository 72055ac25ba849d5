// Listening sockets of the master and the connections on their way in: told apart by their first
// bytes, so that one port can serve agents (TLS, or HTTP/2 in the clear) and torch's store. Loop
// thread only.
//
// Bounded: at most kSilentConnectionsMax connections that have not said anything, each for at most
// kFirstBytesTime; one more costs the address that has most its oldest (crowd.h).
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/crowd.h"
#include "proto/base/port_range.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

inline constexpr size_t kSilentConnectionsMax = 4096;
inline constexpr absl::Duration kFirstBytesTime = absl::Seconds(10);

// Whether Listen takes an address of this form (ADDR:PORT or [ADDR]:PORT); InvalidArgument if not.
// Pure; any thread.
absl::Status CheckListenAddress(absl::string_view address);

class Listener {
 public:
  struct Callbacks {
    std::function<void(UniqueFd socket, std::string peer)> on_tls;
    std::function<void(UniqueFd socket, std::string peer)> on_grpc;  // in the clear
    std::function<void(UniqueFd socket, std::string peer)> on_foreign;
  };
  Listener(uv_loop_t* loop, Callbacks callbacks);

  // As MasterServer::Listen.
  absl::StatusOr<uint16_t> Listen(absl::string_view address, PortRange ports);
  void Close();  // listening and silent connections

 private:
  struct Silent {
    UniqueFd socket;
    std::string peer;
    absl::Time deadline;
    std::unique_ptr<UvPoll> poll;
  };
  struct Door {
    UniqueFd socket;
    std::unique_ptr<UvPoll> poll;
  };
  void Accept(int door);
  void FirstBytes(uint64_t id);
  void Drop(uint64_t id);
  void DropLate();

  uv_loop_t* const loop_;
  const Callbacks callbacks_;
  std::vector<Door> doors_;
  uint64_t next_id_ = 0;
  std::map<uint64_t, Silent> silent_;   // in order of their deadlines
  Crowd crowd_{kSilentConnectionsMax};  // the same
  std::unique_ptr<UvTimer> timer_;
  std::unique_ptr<UvTimer> again_;  // after accept ran out of descriptors
};

// "torchrun (pid 123)" that listens on the TCP port, "" when /proc does not show it.
std::string PortOwner(uint16_t port);

}  // namespace muster
