#include "agent/io/store_port.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"

namespace muster {

absl::StatusOr<uint16_t> StorePort::Open(const std::string& address, uint16_t port, PortRange ports,
                                         bool serve) {
  Close();
  ASSIGN_OR_RETURN(BoundPort bound,
                   serve ? BindStorePort(address, port, ports) : ReservePort(address, port, ports));
  fd_ = std::move(bound.fd);
  port_ = bound.port;
  serve_ = serve;
  return bound.port;
}

void StorePort::Serve(uint32_t world_size, std::shared_ptr<StoreGuard> guard,
                      absl::Duration patience) {
  if (!serve_ || !fd_.valid() || poll_) {
    return;
  }
  world_size_ = world_size;
  guard_ = std::move(guard);
  patience_ = patience;
  poll_.emplace(loop_, fd_.get(), [this](int) { StartServer(); });
  poll_->Start(UV_READABLE);
  for (UniqueFd& client : std::exchange(early_, {})) {
    Adopt(std::move(client));
  }
}

void StorePort::Adopt(UniqueFd client) {
  if (world_size_ == 0) {  // workers of a quicker node
    if (early_.size() < kStoreClientsMax) {
      early_.push_back(std::move(client));
    }
    return;
  }
  if (server_ != nullptr || StartServer()) {
    server_->Adopt(std::move(client));
  }
}

bool StorePort::StartServer() {
  // The store accepts from now on. It closes the socket, also where it cannot start: the number may
  // be another's then, which a later Stop would take from the loop.
  poll_.reset();
  TorchStoreServer::Options options;
  options.world_size = world_size_;
  options.say = [](const std::string& line) { LogInfo(line); };
  if (guard_ != nullptr) {
    options.patience = patience_;
    options.refusal = [guard = guard_](int client) { return guard->RefusalOf(client); };
  }
  absl::StatusOr<std::unique_ptr<TorchStoreServer>> server =
      TorchStoreServer::Start(std::move(fd_), std::move(options));
  if (!server.ok()) {
    on_failed_(absl::StrCat("the torch store cannot start: ", server.status().message()));
    return false;
  }
  server_ = *std::move(server);
  return true;
}

absl::Status StorePort::LeaveToRankZero() {
  if (!std::exchange(serve_, false)) {
    return absl::OkStatus();
  }
  Close();
  ASSIGN_OR_RETURN(BoundPort kept, ReservePort("", port_));
  fd_ = std::move(kept.fd);
  return absl::OkStatus();
}

UniqueFd StorePort::Release() {
  UniqueFd fd = std::move(fd_);
  Close();
  return fd;
}

void StorePort::Close() {
  server_.reset();
  poll_.reset();
  fd_.Reset();
  early_.clear();
  world_size_ = 0;
}

}  // namespace muster
