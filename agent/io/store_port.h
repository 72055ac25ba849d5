// The port of this node: bound before it is announced. MASTER_PORT where rank 0 runs: served, or
// kept for it, and closed with the round. Elsewhere other nodes' workers connect to it. Loop thread
// only; the store's own thread starts with the first client.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/io/store_guard.h"
#include "agent/io/torch_store_port.h"
#include "agent/io/torch_store_server.h"
#include "proto/base/port_range.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class StorePort {
 public:
  // `on_failed`: what was promised to the workers cannot be served.
  StorePort(uv_loop_t* loop, std::function<void(std::string why)> on_failed)
      : loop_(loop), on_failed_(std::move(on_failed)) {}

  // `serve`: we speak torch's protocol on it; else it is only kept until rank 0 binds it. Port 0 =
  // any of `ports`.
  absl::StatusOr<uint16_t> Open(const std::string& address, uint16_t port, PortRange ports,
                                bool serve);
  // A client that came to another socket; only after Serve.
  void Adopt(UniqueFd client);
  // Clients may come now: `world_size` workers. `guard`: who may; nullptr = anybody. `patience`: as
  // TorchStoreServer's.
  void Serve(uint32_t world_size, std::shared_ptr<StoreGuard> guard, absl::Duration patience);
  // Rank 0 is to listen there, whatever was opened. Errors: those of ReservePort.
  absl::Status LeaveToRankZero();
  // What was opened, for another use: bound, and perhaps listening.
  UniqueFd Release();
  void Close();

 private:
  bool StartServer();

  uv_loop_t* const loop_;
  const std::function<void(std::string why)> on_failed_;
  UniqueFd fd_;
  uint16_t port_ = 0;
  bool serve_ = false;
  uint32_t world_size_ = 0;  // 0 = no round is served
  std::shared_ptr<StoreGuard> guard_;
  absl::Duration patience_;
  std::vector<UniqueFd> early_;  // adopted before Serve
  std::optional<UvPoll> poll_;
  std::unique_ptr<TorchStoreServer> server_;
};

}  // namespace muster
