// Serves the torch store (agent/core/torch_store) on a socket that already listens. One thread of
// its own with epoll, so that a busy store never delays anything else; no libuv, no gRPC.
//
// Thread rule: Start, Adopt and the destructor may be called from any one thread; `say` is called
// on the server's thread, without any lock held, and must not block.
#pragma once

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
    // One line for people, without a prefix: who has not connected yet, who was refused and why,
    // how many were at the end.
    std::function<void(std::string)> say;
    // From the first connection on, while workers are missing; each next line after twice the time.
    absl::Duration progress_after = absl::Seconds(60);
    // Why a client is not let in, "" = it is; on the server's thread, before anything is read.
    std::function<std::string(int client)> refusal;
    // One that is not let in is kept and asked for again for so long: who it is may be about to be
    // known. Zero: it is closed at once.
    absl::Duration patience;
    StoreLimits limits;
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

 private:
  class Loop;  // owns everything but the fields below; lives on the thread

  TorchStoreServer() = default;

  UniqueFd stop_;   // eventfd: readable = stop
  UniqueFd adopt_;  // pipe: numbers of descriptors that the thread takes over
  std::unique_ptr<Loop> loop_;
  std::optional<Thread> thread_;
};

}  // namespace muster
