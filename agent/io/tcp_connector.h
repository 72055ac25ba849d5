// Connects to "HOST:PORT" without blocking: resolves the name on the thread pool, then tries its
// addresses in turn. Loop thread only. Destroying it gives up; no callback comes after that.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

// Host and port of "HOST:PORT", "[ADDR]:PORT".
absl::StatusOr<std::pair<std::string, std::string>> SplitTarget(absl::string_view target);

class TcpConnector {
 public:
  // One connected, non-blocking socket, or why not: the reason of every address that was tried.
  // Comes once, never from inside the constructor. Each address gets an equal share of `within`.
  // FailedPrecondition: every address refused, so nobody listens there; Unavailable: all else.
  TcpConnector(uv_loop_t* loop, const std::string& target, absl::Duration within,
               std::function<void(absl::StatusOr<UniqueFd>)> done);
  ~TcpConnector();
  TcpConnector(const TcpConnector&) = delete;
  TcpConnector& operator=(const TcpConnector&) = delete;

 private:
  struct Lookup;
  struct Address {
    std::string bytes;  // a sockaddr
    std::string text;
  };
  void Resolved(int error, const struct addrinfo* found);
  void TryNext();
  void Connected(int events);
  void Failed(const std::string& why);
  void Report(absl::StatusOr<UniqueFd> result);

  uv_loop_t* const loop_;
  const std::string target_;
  const absl::Duration within_;
  const std::function<void(absl::StatusOr<UniqueFd>)> done_;
  Lookup* lookup_ = nullptr;  // libuv's until its callback, which clears this or finds it cleared
  std::vector<Address> addresses_;
  size_t next_ = 0;
  std::string failures_;
  size_t refused_ = 0;  // of addresses_
  UniqueFd socket_;
  std::unique_ptr<UvPoll> poll_;
  UvTimer timer_;
};

}  // namespace muster
