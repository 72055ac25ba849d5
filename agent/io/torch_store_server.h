// Serves the torch store (agent/core/torch_store) on a socket that already listens. One thread of
// its own with epoll, so that a busy store never delays anything else; no libuv, no gRPC.
//
// Thread rule: Start, the destructor and stats() may be called from any one thread; `say` is called
// on the server's thread, without any lock held, and must not block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/core/torch_store_wire.h"
#include "agent/io/thread.h"
#include "agent/io/torch_store_port.h"  // IWYU pragma: export
#include "proto/base/unique_fd.h"

namespace muster {

class TorchStoreServer {
 public:
  struct Options {
    uint32_t world_size = 0;  // 0 = unknown: no progress lines
    // One line for people, without a prefix: who has not connected yet, who was refused and why.
    std::function<void(std::string)> say;
    // From the first connection on, while workers are missing; each next line after twice the time.
    absl::Duration progress_after = absl::Seconds(60);
    StoreLimits limits;
  };
  struct Stats {
    size_t clients = 0;
    size_t keys = 0;
    size_t bytes = 0;        // of memory that the table, requests and waits need
    uint32_t connected = 0;  // workers that have said hello, at most world_size
  };

  // Errors: InvalidArgument (the socket does not listen), ResourceExhausted (no
  // descriptor, no thread).
  static absl::StatusOr<std::unique_ptr<TorchStoreServer>> Start(UniqueFd listening_socket,
                                                                 Options options);
  // Stops the thread and closes every connection: 10 us for each that is still open (16,000 of them
  // took 170 ms), nothing else takes time.
  ~TorchStoreServer();
  TorchStoreServer(const TorchStoreServer&) = delete;
  TorchStoreServer& operator=(const TorchStoreServer&) = delete;

  // A client that came to another socket (torchrun's static form shares the rendezvous' port);
  // nothing was read from it. Loop thread of the owner.
  void Adopt(UniqueFd client);

  uint16_t port() const { return port_; }
  Stats stats() const;

 private:
  class Loop;  // owns everything but the fields below; lives on the thread
  struct Shared {
    std::atomic<size_t> clients{0};
    std::atomic<size_t> keys{0};
    std::atomic<size_t> bytes{0};
    std::atomic<uint32_t> connected{0};
  };

  TorchStoreServer() = default;

  uint16_t port_ = 0;
  Shared shared_;
  UniqueFd stop_;   // eventfd: readable = stop
  UniqueFd adopt_;  // pipe: numbers of descriptors that the thread takes over
  std::unique_ptr<Loop> loop_;
  std::optional<Thread> thread_;
};

}  // namespace muster
